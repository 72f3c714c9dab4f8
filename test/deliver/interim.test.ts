import type { Server } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import * as fc from 'fast-check';
import t, { type Test } from 'tap';
import type { Dispatcher } from 'undici';
import { post } from '../../src/deliver/exchange.ts';
import { createAgent } from '../../src/deliver/http/agent.ts';
import { type Clock, systemClock } from '../../src/kernel/clock.ts';
import { ManualClock } from '../helpers/clock.ts';
import { Authority } from './helpers/certificates.ts';
import { answering, ENDLESS, endlessly } from './helpers/raw-answers.ts';

const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';
const PROCESSING = 'HTTP/1.1 102 Processing\r\nx-progress: half\r\n\r\n';
const HINTS = 'HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\nlink: </b.css>\r\n\r\n';
const NO_CONTENT = 'HTTP/1.1 204 No Content\r\n\r\n';

const send = (agent: Dispatcher, origin: string, clock: Clock = systemClock) =>
  post(agent, clock, { origin, path: '/', headers: [], body: Buffer.from('{}') });

function agentOf(t: Test, options: { readonly ca?: string[]; readonly proxy?: string } = {}): Dispatcher {
  const agent = createAgent({ allow: ['127.0.0.0/8'], ca: [], proxy: null, ...options });
  t.teardown(() => agent.destroy());
  return agent;
}

const series: Readonly<Record<string, readonly string[]>> = {
  'a 100 that was not asked for': [CONTINUE, NO_CONTENT],
  'a 100 in one packet with the answer': [CONTINUE + NO_CONTENT],
  'several of all kinds, and one of a status that nobody knows': [
    HINTS + CONTINUE,
    PROCESSING,
    CONTINUE,
    'HTTP/1.1 199 Who Knows\r\n\r\n',
    NO_CONTENT,
  ],
  'a 100 byte by byte': [...CONTINUE, ...NO_CONTENT],
  'a 100 that ends within a packet': ['HTTP/1.1 1', '00 Continue\r\nx-a: b\r', '\n\r', '\nHTTP/1.1 2', '04 OK\r\n\r\n'],
};
for (const [name, parts] of Object.entries(series)) {
  t.test(`accepts ${name}, and keeps the connection`, async (t) => {
    const server = await answering(t, () => parts);
    const agent = agentOf(t);
    for (let n = 0; n < 3; n += 1) t.match(await send(agent, `http://${server.url}`), { status: 204, error: null });
    t.equal(server.connections, 1);
  });
}

t.test('passes on a body that looks like an interim answer', async (t) => {
  const body = `${CONTINUE}${HINTS}`;
  const head = `HTTP/1.1 400 Bad\r\ncontent-length: ${body.length}\r\n\r\n`;
  const server = await answering(t, () => [CONTINUE, head, body]);
  const { status, response } = await send(agentOf(t), `http://${server.url}`);
  t.same({ status, response }, { status: 400, response: body });
});

t.test('works within TLS and through a proxy', async (t) => {
  const authority = new Authority();
  t.teardown(() => authority.remove());
  const make = () => createTlsServer({ ...authority.issue('IP:127.0.0.1') }) as unknown as Server;
  const server = await answering(t, () => [CONTINUE, NO_CONTENT], make);
  t.match(await send(agentOf(t, { ca: [authority.cert] }), `https://${server.url}`), { status: 204, error: null });
  const proxy = await answering(t, () => [CONTINUE, NO_CONTENT]);
  t.match(await send(agentOf(t, { proxy: `http://${proxy.url}` }), 'http://crm.example'), { status: 204, error: null });
});

for (const [name, [status, first, more]] of Object.entries(ENDLESS)) {
  t.test(`cuts off endless answers before the timeout: ${name}`, async (t) => {
    const server = await answering(t, () => endlessly(first, more));
    const error = status === null ? 'UND_ERR_HEADERS_OVERFLOW' : null;
    t.match(await send(agentOf(t), `http://${server.url}`, new ManualClock()), { status, error });
  });
}

t.test('cuts off endless heads of a proxy, before the endpoint is reached', async (t) => {
  const proxy = await answering(t, () => endlessly('', '\r\n'));
  const agent = agentOf(t, { proxy: `http://${proxy.url}` });
  t.match(await send(agent, 'https://crm.example', new ManualClock()), { status: null, outcome: 'retry' });
});

t.test('accepts 60 KB of heads before an answer, and a body with 60 KB of framing', async (t) => {
  const hints = `HTTP/1.1 103 Early Hints\r\nlink: <${'a'.repeat(9_900)}>\r\n\r\n`;
  const chunks = `1;${'x'.repeat(990)}\r\nx\r\n`.repeat(60);
  const final = `HTTP/1.1 422 No\r\ntransfer-encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`;
  const server = await answering(t, () => [hints.repeat(6), final]);
  t.match(await send(agentOf(t), `http://${server.url}`), { status: 422, response: 'x'.repeat(60) });
});

t.test('reads 2,000 lines of an answer, and ends its connection beyond them', async (t) => {
  const sent = async (lines: number) => {
    const trailers = 'a: b\r\n'.repeat(lines);
    const server = await answering(t, () => [
      `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n${trailers}\r\n`,
    ]);
    const agent = agentOf(t);
    for (let n = 0; n < 2; n += 1) t.match(await send(agent, `http://${server.url}`), { status: 200, error: null });
    return server.connections;
  };
  t.equal(await sent(1_900), 1);
  t.equal(await sent(2_100), 2);
});

t.test('does not take a protocol switch for an interim answer', async (t) => {
  const other = await answering(t, () => ['HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n']);
  t.match(await send(agentOf(t), `http://${other.url}`), { status: null, error: 'UND_ERR_SOCKET' });
});

t.test('shows undici only what follows interim heads, however packets are divided', async (t) => {
  let parts: readonly Buffer[] = [];
  const server = await answering(t, () => parts);
  const agent = agentOf(t);
  const answers = fc.record({
    interim: fc.array(fc.constantFrom(CONTINUE, PROCESSING, HINTS), { maxLength: 4 }),
    body: fc.constantFrom('', 'no', CONTINUE, 'HTTP/1.1 100', '\r\n\r\n'),
    cuts: fc.array(fc.nat(400), { maxLength: 6 }),
  });
  await fc.assert(
    fc.asyncProperty(answers, async ({ interim, body, cuts }) => {
      const bytes = Buffer.from(`${interim.join('')}HTTP/1.1 422 No\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
      const at = [0, ...cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b), bytes.length];
      parts = at.slice(1).map((end, index) => bytes.subarray(at[index], end));
      const { status, response } = await send(agent, `http://${server.url}`);
      t.same({ status, response }, { status: 422, response: body === '' ? null : body });
    }),
    { numRuns: 200 },
  );
});
