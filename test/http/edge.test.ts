import { once } from 'node:events';
import { IncomingMessage, type ServerOptions } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { collect } from '../../src/collect/collect.ts';
import { defaultLimits, type EdgeLimits, ServerEdge } from '../../src/http/edge.ts';
import { createHttpServer } from '../../src/http/server.ts';
import { networkOf } from '../../src/kernel/ip.ts';
import { ManualClock } from '../helpers/clock.ts';

interface Options {
  readonly limits?: Partial<EdgeLimits>;
  readonly trustedProxies?: readonly string[];
  readonly accept?: (source: string) => Promise<unknown>;
  readonly alive?: () => void;
  readonly node?: ServerOptions;
}

/** The service's server, with collection, an order for admins, and a large file for everybody. */
async function startServer(
  t: Test,
  { limits = {}, trustedProxies = [], accept = async () => {}, alive = () => {}, node = {} }: Options = {},
) {
  const clock = new ManualClock();
  const refused: string[] = [];
  const lines: object[] = [];
  const log = pino({ level: 'warn' }, { write: (line) => lines.push(JSON.parse(line)) });
  const health = { alive, ready: async () => {} };
  const onRefused = (reason: string) => refused.push(reason);
  const server = createHttpServer(log, health, trustedProxies, clock, { limits, onRefused, node });
  const sources = ['shop', 'other'].map((id) => ({ id, writeKey: id, enabled: true }));
  await server.register(collect, { sources: () => sources, clock, accept });
  server.post('/order', { bodyLimit: 1_000_000 }, async ({ body }) => ({ done: Object.keys(body as object).length }));
  server.post('/session', async () => ({ done: true }));
  server.get('/admin', { onRequest: async (request) => server.edge.believe(request, 'admin') }, async () => 'in');
  server.get('/large', async () => Buffer.alloc(1_000_000, 'x'));
  t.teardown(() => server.close());
  await server.listen({ host: '127.0.0.1', port: 0 });
  const { port } = server.server.address() as AddressInfo;
  /** Resolves once the server has the connection. */
  const open = async (sent = '', localAddress = '127.0.0.1'): Promise<Socket> => {
    const arrived = once(server.server, 'connection');
    const socket = connect({ port, host: '127.0.0.1', localAddress }).on('error', () => {});
    t.teardown(() => socket.destroy());
    await arrived;
    if (sent !== '') socket.write(sent);
    return socket;
  };
  const answered = async (sent: string, localAddress?: string) => {
    const socket = await open(sent, localAddress);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    return { socket, answer: String(answer) };
  };
  return { server, clock, refused, lines, port, open, answered };
}

const GET = (path: string) => `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`;
const JSON_TYPE = 'content-type: application/json\r\n';

function post(path: string, body: string, headers = ''): string {
  return `POST ${path} HTTP/1.1\r\nhost: a\r\n${headers}content-length: ${body.length}\r\n\r\n${body}`;
}

const track = (key: string, filler = '') =>
  post(`/v1/track?writeKey=${key}`, JSON.stringify({ event: 'e', userId: 'u', filler }));

t.test('cuts the longest idle connection of an address, a source, and all', async (t) => {
  // Both overflow at once, so that no cut waits for the clock.
  for (const [reason, sent, addressOf] of [
    ['address', GET('/healthz'), () => '127.0.0.1'],
    ['source', track('shop'), (n: number) => `127.0.0.${n + 2}`],
    ['all', GET('/healthz'), (n: number) => `127.0.0.${n + 2}`],
  ] as const) {
    const limits = { connections: reason === 'all' ? 4 : 8 };
    const { refused, open, answered } = await startServer(t, { limits });
    const held = await Promise.all([0, 1, 2].map((n) => answered(sent, addressOf(n))));
    // The first one is used again.
    held[0]?.socket.write(sent);
    await once(held[0]?.socket as Socket, 'data');
    const closed = once(held[1]?.socket as Socket, 'close');
    for (const n of [3, 4, 5, 6]) {
      if (reason === 'source') await answered(sent, addressOf(n));
      else await open('', addressOf(n));
    }
    await closed;
    t.equal(held[0]?.socket.destroyed, false, reason);
    t.strictSame(new Set(refused), new Set([reason]));
    t.match((await answered(GET('/healthz'), '127.0.0.99')).answer, /^HTTP\/1\.1 200 /, 'health checks are answered');
  }
});

t.test('cuts one connection at a time between a limit and the overflow', async (t) => {
  const { clock, refused, open } = await startServer(t, { limits: { connections: 20 } });
  const sockets: Socket[] = [];
  for (let n = 0; n < 13; n += 1) sockets.push(await open());
  t.equal(refused.length, 0);
  for (const cut of [0, 1, 2]) {
    const closed = once(sockets[cut] as Socket, 'close');
    await clock.timer(2);
    clock.advance(2);
    await closed;
    t.equal(refused.length, cut + 1);
  }
  clock.advance(1_000);
  t.equal(refused.length, 3);
});

for (const isAnswered of [false, true]) {
  const who = isAnswered ? 'that were answered long ago' : 'that are new';
  t.test(`serves who was served just before, and health checks, before a crowd of connections ${who}`, async (t) => {
    const order: string[] = [];
    const { answered, open, clock } = await startServer(t, {
      accept: async (source) => void order.push(source),
      alive: () => void order.push('health'),
    });
    const crowd: Socket[] = [];
    while (crowd.length < 40) crowd.push(isAnswered ? (await answered(track('shop'))).socket : await open());
    clock.advance(1_000);
    const { socket: inUse } = await answered(track('other'));
    const health = await open();
    if (health.connecting) await once(health, 'connect');
    const before = order.length;
    const answers = [...crowd, health, inUse].map((socket) => once(socket, 'data'));
    for (const socket of crowd) socket.write(track('shop'));
    health.write(GET('/healthz'));
    inUse.write(track('other'));
    await Promise.all(answers);
    t.equal(order.length - before, 42);
    for (const who of ['other', 'health'])
      t.ok(order.lastIndexOf(who) - before < 20, `${who} was number ${order.lastIndexOf(who) - before}`);
  });
}

t.test('reads no more of the bodies of a crowd than came with their heads', async (t) => {
  const edge = new ServerEdge({ log: { warn() {} }, clock: new ManualClock(), trustedProxies: [] });
  const waiting: number[] = [];
  const server = edge.createServer((request, response) => {
    waiting.push(request.readableLength);
    response.end();
  });
  t.teardown(() => server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const answered = Array.from({ length: 60 }, () => {
    const socket = connect({ port, host: '127.0.0.1' }).on('error', () => {});
    t.teardown(() => socket.destroy());
    socket.write(post('/', 'x'.repeat(1_000_000)));
    return once(socket, 'data');
  });
  await Promise.all(answered);
  t.ok(Math.max(...waiting) <= 64 * 1024, `at most ${Math.max(...waiting)} bytes`);
});

t.test('counts connections of admins apart from all others', async (t) => {
  const { answered, open } = await startServer(t, { limits: { connections: 8 } });
  const { socket } = await answered(GET('/admin'));
  for (let n = 0; n < 40; n += 1) await open('', `127.0.0.${2 + (n % 20)}`);
  socket.write(GET('/healthz'));
  await once(socket, 'data');
  t.equal(socket.destroyed, false);
});

t.test('logs what it cut once in ten seconds', async (t) => {
  const { clock, lines, open } = await startServer(t, { limits: { connections: 2 } });
  const first = await open();
  const closed = once(first, 'close');
  await open();
  await open();
  await closed;
  t.strictSame(lines, []);
  await clock.timer(10_000);
  clock.advance(10_000);
  t.match(lines, [{ refused: { address: Number }, msg: String }]);
});

t.test('answers unknown paths and too large bodies without reading them', async (t) => {
  const { server, port } = await startServer(t);
  for (const [path, status] of [
    ['/nope', 404],
    ['/v1/nope', 404],
    ['/session', 400],
    ['/v1/track', 400],
  ] as const) {
    const arrived = once(server.server, 'request');
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    socket.write(`POST ${path} HTTP/1.1\r\nhost: a\r\n${JSON_TYPE}content-length: 1000000\r\n\r\n{`);
    const [request] = await arrived;
    const answer = await text(socket);
    t.match(answer, new RegExp(`^HTTP/1\\.1 ${status} .*connection: close`, 'is'), path);
    t.equal(request.complete, false);
  }
  const small = connect(port, '127.0.0.1');
  small.write(post('/nope', '{}', JSON_TYPE) + GET('/healthz').replace('\r\n\r\n', '\r\nconnection: close\r\n\r\n'));
  t.match(await text(small), /404 .*200 /s, 'a small body costs nobody the connection');
});

t.test('cuts the bodies of strangers that hold on longest, whatever their route', async (t) => {
  const { server, refused, open, answered } = await startServer(t, { limits: { strangerBytes: 400_000 } });
  const hold = async (path: string, address: string) => {
    const arrived = once(server.server, 'request');
    const socket = await open('', address);
    socket.write(`POST ${path} HTTP/1.1\r\nhost: a\r\n${JSON_TYPE}content-length: 500000\r\n\r\n${'['.repeat(90_000)}`);
    await arrived;
    return socket;
  };
  const first = await hold('/order', '127.0.0.2');
  const closed = once(first, 'close');
  const second = await hold('/v1/batch', '127.0.0.2');
  await closed;
  t.strictSame(refused, ['bodies'], 'an address has a quarter');
  const again = once(second, 'close');
  for (const n of [3, 4, 5, 6]) await hold('/order', `127.0.0.${n}`);
  await again;
  t.strictSame(refused, ['bodies', 'bodies']);
  t.match((await answered(track('shop', 'x'.repeat(30_000)))).answer, /^HTTP\/1\.1 200 /);
});

t.test('cuts a connection that sends many requests at once, and those that do so beyond the sum', async (t) => {
  const { refused, open, answered } = await startServer(t, { limits: { pipelined: 10, unanswered: 30 } });
  const greedy = await open(GET('/healthz').repeat(11));
  await once(greedy, 'close');
  t.strictSame(refused, ['pipelining']);
  const modest = await open(
    GET('/healthz').repeat(9) + GET('/healthz').replace('\r\n\r\n', '\r\nconnection: close\r\n\r\n'),
  );
  t.equal([...(await text(modest)).matchAll(/HTTP\/1\.1 200 /g)].length, 10);
  t.match((await answered(GET('/healthz'))).answer, /200/);
});

t.test('parses nothing more of a connection that it has cut', async (t) => {
  let parsed = 0;
  class Counted extends IncomingMessage {
    constructor(socket: Socket) {
      super(socket);
      parsed += 1;
    }
  }
  for (const request of [GET('/nope'), track('shop'), GET('/nope').replace('host', 'upgrade: h2c\r\nhost')]) {
    const { refused, open } = await startServer(t, { limits: { pipelined: 10 }, node: { IncomingMessage: Counted } });
    parsed = 0;
    await once(await open(request.repeat(400)), 'close');
    t.strictSame(refused, ['pipelining']);
    t.ok(parsed <= 12, `${parsed} of 400`);
  }
});

/** A body in chunks of one byte each. */
const chunked = (path: string, body: string) =>
  `POST ${path} HTTP/1.1\r\nhost: a\r\n${JSON_TYPE}transfer-encoding: chunked\r\n\r\n${body.replaceAll(/./g, '1\r\n$&\r\n')}0\r\n\r\n`;

t.test('joins small chunks that arrive at once', async (t) => {
  const edge = new ServerEdge({ log: { warn() {} }, clock: new ManualClock(), trustedProxies: [] });
  const chunks: Buffer[] = [];
  const server = edge.createServer((request, response) => {
    request.on('data', (chunk: Buffer) => chunks.push(chunk)).on('end', () => response.end());
  });
  t.teardown(() => server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const socket = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' });
  t.teardown(() => socket.destroy());
  const body = Array.from({ length: 500 }, (_, n) => n % 10).join('');
  socket.write(chunked('/', body));
  await once(socket, 'data');
  t.equal(String(Buffer.concat(chunks)), body);
  t.ok(chunks.length < 50, `${chunks.length} chunks`);
});

t.test('cuts a connection that sends hundreds of tiny chunks at once', async (t) => {
  const { refused, open } = await startServer(t);
  for (const path of ['/order', '/v1/track?writeKey=shop'])
    await once(await open(chunked(path, ' '.repeat(5_000))), 'close');
  t.strictSame(refused, ['bodies', 'bodies']);
});

t.test('serves one request of each connection in turn', async (t) => {
  const order: string[] = [];
  const accept = async (source: string) => void order.push(source);
  const { open } = await startServer(t, { accept, limits: { unanswered: 10_000 } });
  const greedy: Socket[] = [];
  while (greedy.length < 20) greedy.push(await open());
  const newcomer = await open();
  const answers = [...greedy, newcomer].map((socket) => once(socket, 'data'));
  for (const socket of greedy) socket.write(track('shop').repeat(60));
  newcomer.write(track('other'));
  await Promise.all(answers);
  t.ok(order.indexOf('other') < 100, `number ${order.indexOf('other')} of 1,201`);
});

t.test('cuts connections that do not read their answers', async (t) => {
  const { server, refused, open, answered } = await startServer(t, { limits: { unreadBytes: 64_000_000 } });
  const arrived = once(server.server, 'connection');
  const socket = await open();
  const [theirs] = (await arrived) as [Socket];
  const closed = once(theirs, 'close');
  socket.pause();
  socket.write(GET('/large').repeat(40));
  await closed;
  t.strictSame(refused, ['unread']);
  t.match((await answered(GET('/healthz'))).answer, /200/);
});

t.test('frees all that a connection held when it ends', async (t) => {
  const started = Promise.withResolvers<void>();
  const never = new Promise<never>(() => {});
  const accept = (source: string) => {
    started.resolve();
    return source === 'shop' ? never : Promise.resolve();
  };
  const { server, open, answered } = await startServer(t, { accept, limits: { pendingBytes: 60_000, unanswered: 4 } });
  const arrived = once(server.server, 'connection');
  const held = await open(track('shop', 'x'.repeat(20_000)) + GET('/healthz') + GET('/healthz'));
  const [theirs] = (await arrived) as [Socket];
  await started.promise;
  t.match((await answered(track('shop', 'x'.repeat(30_000)))).answer, /^HTTP\/1\.1 503 /);
  const closed = once(theirs, 'close');
  held.destroy();
  await closed;
  t.match((await answered(track('other', 'x'.repeat(30_000)))).answer, /^HTTP\/1\.1 200 /, 'its body');
  const other = await open(GET('/healthz').repeat(3));
  t.match(String((await once(other, 'data'))[0]), /200/);
  t.equal(other.destroyed, false, 'its requests no longer count');
});

t.test('counts requests behind a trusted proxy for the clients it names', async (t) => {
  const started: (() => void)[] = [];
  const accept = () => new Promise<void>((resolve) => started.push(resolve));
  const { refused, answered, open } = await startServer(t, {
    ...{ accept, trustedProxies: ['127.0.0.0/8'], limits: { connections: 8 } },
  });
  const from = (client: string) => track('shop').replace('host: a\r\n', `host: a\r\nx-forwarded-for: ${client}\r\n`);
  for (let n = 0; n < 4; n += 1) await open(from('2001:db8::1'));
  while (started.length < 4) await new Promise((resolve) => setImmediate(resolve));
  t.match((await answered(from('2001:db8::2'))).answer, /^HTTP\/1\.1 503 /, 'the same /64');
  t.strictSame(refused, ['requests'], 'and no connection was cut');
  const other = await open(from('203.0.113.7'));
  while (started.length < 5) await new Promise((resolve) => setImmediate(resolve));
  for (const finish of started) finish();
  t.match(String((await once(other, 'data'))[0]), /^HTTP\/1\.1 200 /);
});

t.test('takes the /64 of an IPv6 address for a client', (t) => {
  t.equal(networkOf('2001:db8:1:2:3:4:5:6'), networkOf('2001:db8:1:2::1'));
  t.not(networkOf('2001:db8:1:2::1'), networkOf('2001:db8:1:3::1'));
  t.equal(networkOf('::ffff:192.0.2.1'), '192.0.2.1');
  t.equal(networkOf('192.0.2.1'), '192.0.2.1');
  t.end();
});

t.test('leaves most of the files that the process may open to others', async (t) => {
  t.ok(defaultLimits().connections <= 2_048);
});
