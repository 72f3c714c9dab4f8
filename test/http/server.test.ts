import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setImmediate as turn } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { collect } from '../../src/collect/collect.ts';
import { createHttpServer, startListening } from '../../src/http/server.ts';
import { type Clock, systemClock } from '../../src/kernel/clock.ts';
import { ManualClock } from '../helpers/clock.ts';

const LINUX_ONLY = process.platform !== 'linux' && 'Only Linux spreads connections over several sockets.';

const SOURCE = { id: 'shop', writeKey: 'WK', enabled: true };

/** The service's server, listening on both addresses that `localhost` may be. */
async function startServer(t: Test, accept: () => Promise<unknown> = async () => {}, clock: Clock = systemClock) {
  const health = { alive: () => {}, ready: async () => {} };
  const server = createHttpServer(pino({ level: 'silent' }), health, [], clock, { limits: { connections: 16 } });
  await server.register(collect, { sources: () => [SOURCE], clock: systemClock, accept });
  t.teardown(() => server.close());
  await startListening(server, { host: 'localhost', port: 0 }, async () => ['127.0.0.1', '::1']);
  return { server, port: (server.server.address() as AddressInfo).port };
}

async function answerOf(port: number, sent: string, host = '127.0.0.1') {
  const socket = connect(port, host);
  socket.write(sent);
  const [head = '', body = ''] = (await text(socket)).split('\r\n\r\n');
  return { status: Number(head.split(' ')[1]), head, body: JSON.parse(body) as unknown };
}

t.test('accepts several connections per turn of the event loop', { skip: LINUX_ONLY }, async (t) => {
  const { server, port } = await startServer(t);
  let accepted = 0;
  let turns = 0;
  server.server.on('connection', () => {
    accepted += 1;
  });
  const sockets = Array.from({ length: 96 }, () => connect(port, '127.0.0.1').on('error', () => {}));
  t.teardown(() => sockets.forEach((socket) => void socket.destroy()));
  // From the first one on: all are in the queues of the sockets by then.
  await once(server.server, 'connection');
  for (; accepted < sockets.length; turns += 1) await turn();
  t.ok(turns < sockets.length / 2, `in ${turns} turns`);
});

t.test('does not share a port that another process has, or this one', { skip: LINUX_ONLY }, async (t) => {
  const { port } = await startServer(t);
  const other = createHttpServer(pino({ level: 'silent' }), { alive: () => {}, ready: async () => {} });
  t.teardown(() => other.close());
  await t.rejects(startListening(other, { host: '127.0.0.1', port }), { code: 'EADDRINUSE' });
});

t.test('answers in JSON to a request without Host, or with an unknown Expect', async (t) => {
  const { port } = await startServer(t);
  const error = { code: 'invalid_request', message: String, error: String };
  const hostless = await answerOf(port, 'POST /v1/track HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}');
  t.match(hostless, { status: 400, body: error, head: /connection: close/i });
  const expecting = await answerOf(port, 'POST /v1/track HTTP/1.1\r\nhost: a\r\nexpect: a-miracle\r\n\r\n');
  t.match(expecting, { status: 417, body: error, head: /connection: close/i });
  const long = await answerOf(port, `GET /healthz HTTP/1.1\r\nhost: a\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`);
  t.match(long, { status: 431, body: { ...error, message: 'The headers are too large.' } });
  const old = await answerOf(port, 'GET /healthz HTTP/1.0\r\n\r\n');
  t.match(old, { status: 200, body: { status: 'ok' } }, 'HTTP/1.0 knows no Host');
});

const KEY = `authorization: Basic ${btoa('WK:')}\r\n`;
const TRACK = JSON.stringify({ event: 'Bought', userId: 'u' });

function requestOf(body: string, headers: string): string {
  return `POST /v1/track HTTP/1.1\r\nhost: a\r\n${headers}content-length: ${body.length}\r\n\r\n${body}`;
}

/** The statuses of all answers on a connection, up to its end. */
async function statusesOf(socket: Socket): Promise<number[]> {
  return [...(await text(socket)).matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => Number(status));
}

t.test('answers a request after a bad one on its connection', async (t) => {
  const { port } = await startServer(t);
  const bad: [status: number, request: string][] = [
    [400, requestOf('{', KEY)],
    [400, requestOf('no gzip', `${KEY}content-encoding: gzip\r\n`)],
    [400, requestOf('{"userId":"u"}', KEY)],
    [401, requestOf('{"writeKey":"nobody"}', '')],
    [401, requestOf(TRACK, `authorization: Basic ${btoa('nobody:')}\r\n`)],
    [400, requestOf('', KEY)],
    [415, requestOf(TRACK, `${KEY}content-encoding: zstd\r\n`)],
  ];
  for (const [status, request] of bad) {
    const socket = connect(port, '127.0.0.1');
    socket.write(request + requestOf(TRACK, `${KEY}connection: close\r\n`), 'latin1');
    t.same(await statusesOf(socket), [status, 200], request);
  }
});

t.test('refuses a request that expects 100-continue by its headers, or else asks for its body', async (t) => {
  const { port } = await startServer(t);
  const asking = (headers: string) => `POST /v1/track HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n${headers}\r\n`;
  const refused: [status: number, headers: string][] = [
    [400, `${KEY}content-length: 40000\r\n`],
    [400, 'content-length: 99999999\r\n'],
    [401, `authorization: Basic ${btoa('nobody:')}\r\ncontent-length: 2\r\n`],
  ];
  for (const [status, headers] of refused) {
    const socket = connect(port, '127.0.0.1');
    socket.write(asking(headers));
    t.same(await statusesOf(socket), [status], headers);
  }
  for (const [body, headers] of [
    [TRACK, KEY],
    [JSON.stringify({ ...JSON.parse(TRACK), writeKey: 'WK' }), ''],
  ] as const) {
    const socket = connect(port, '127.0.0.1');
    socket.write(asking(`${headers}connection: close\r\ncontent-length: ${body.length}\r\n`));
    const [first] = (await once(socket, 'data')) as [Buffer];
    t.equal(first.toString(), 'HTTP/1.1 100 Continue\r\n\r\n');
    socket.write(body);
    t.same(await statusesOf(socket), [200]);
  }
});

const MOST_QUEUED = '/proc/sys/net/core/somaxconn';

/** Opens connections, and tells how many were made: all of them, or those of half a minute. */
const CROWD = `
  const [port, count] = process.argv.slice(1).map(Number);
  let made = 0;
  const tell = () => { console.log(made); process.exit(); };
  for (let n = 0; n < count; n += 1) require('net').connect(port, '127.0.0.1', () => ++made === count && tell()).on('error', () => {});
  setTimeout(tell, 30_000);`;

t.test('keeps a crowd waiting that connects while the process is busy', async (t) => {
  const crowd = 600;
  const mostQueued = existsSync(MOST_QUEUED) ? Number(readFileSync(MOST_QUEUED, 'utf8')) : 0;
  if (mostQueued < crowd) return t.pass(`this system lets ${mostQueued} connections wait for any program`);
  const { port } = await startServer(t);
  // This process takes nobody meanwhile; beyond the number that may wait, a connection is not even made.
  const { stdout } = spawnSync(process.execPath, ['-e', CROWD, String(port), String(crowd)], { encoding: 'utf8' });
  t.equal(Number(stdout), crowd);
});

t.test('listens on both addresses of localhost, with one set of limits', async (t) => {
  const { server, port } = await startServer(t);
  const hosts = await listeningHosts(port);
  if (!hosts.includes('::1')) return t.pass('this machine has no IPv6');
  const strangers = Array.from({ length: 24 }, () => connect(port, '::1').on('error', () => {}));
  const cut = Promise.withResolvers<void>();
  let left = 16;
  for (const socket of strangers) {
    socket.once('close', () => {
      left -= 1;
      if (left === 0) cut.resolve();
    });
  }
  await cut.promise;
  t.equal(strangers.filter((socket) => !socket.destroyed).length, 8, 'strangers are cut there as here');
  const { status } = await answerOf(port, 'GET /healthz HTTP/1.0\r\n\r\n', '::1');
  t.equal(status, 200);
  for (const socket of strangers) socket.destroy();
  await server.close();
  t.same(await listeningHosts(port), [], 'closed with the server');
});

t.test('answers requests in flight before the server closes, and tells later ones to retry', async (t) => {
  for (const host of ['127.0.0.1', '::1']) {
    const accepting = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    const { server, port } = await startServer(t, () => {
      asked.resolve();
      return accepting.promise;
    });
    if (!(await listeningHosts(port)).includes(host)) continue;
    const agent = new Agent({ keepAlive: true });
    t.teardown(() => agent.destroy());
    const sent = post(agent, host, port);
    await asked.promise;
    let isClosed = false;
    const closed = server.close().then(() => {
      isClosed = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    t.equal(isClosed, false);
    accepting.resolve();
    t.match(await sent, { status: 200, body: { success: true } });
    t.match(await post(agent, host, port), {
      ...{ status: 503, body: { code: 'stopping' }, headers: { 'retry-after': '5', connection: 'close' } },
    });
    await closed;
  }
});

/** By the connection that there is. */
async function post(agent: Agent, host: string, port: number) {
  const headers = { authorization: `Basic ${btoa('WK:')}` };
  const sent = request({ agent, host, port, method: 'POST', path: '/v1/track', headers });
  sent.end(JSON.stringify({ event: 'Bought', userId: 'u' }));
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: answer.statusCode, headers: answer.headers, body: JSON.parse(await text(answer)) as unknown };
}

t.test('closes without waiting for a connection that was in use', async (t) => {
  const accepting = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  const { server, port } = await startServer(t, () => {
    asked.resolve();
    return accepting.promise;
  });
  const agent = new Agent({ keepAlive: true });
  t.teardown(() => agent.destroy());
  const sent = post(agent, '127.0.0.1', port);
  await asked.promise;
  const closed = server.close();
  accepting.resolve();
  t.match(await sent, { status: 200 });
  const start = performance.now();
  await closed;
  t.ok(performance.now() - start < 60_000, 'though it may be idle for 72 s');
});

t.test('closes in spite of requests and connections that never end', async (t) => {
  const clock = new ManualClock();
  const { server, port } = await startServer(t, undefined, clock);
  const unfinished = [
    'POST /v1/track HTTP/1.1\r\nhost: a\r\nx-',
    `POST /v1/track HTTP/1.1\r\nhost: a\r\n${KEY}content-length: 9\r\n\r\n{`,
    'NONSENSE\r\n\r\n',
  ];
  for (const sent of unfinished) {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    t.teardown(() => socket.destroy());
    // What comes behind a request has come when that is answered.
    socket.write(`GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n${sent}`);
    await once(
      socket.on('error', () => {}),
      'data',
    );
  }
  const closed = server.close();
  await clock.timer(10_000);
  clock.advance(10_000);
  await closed;
});

/** Of the two that `localhost` may be, those that take connections. */
async function listeningHosts(port: number): Promise<string[]> {
  const hosts: string[] = [];
  for (const host of ['127.0.0.1', '::1']) {
    const socket = connect(port, host);
    try {
      await once(socket, 'connect');
      hosts.push(host);
    } catch {
      // Nobody is there.
    } finally {
      socket.destroy();
    }
  }
  return hosts;
}
