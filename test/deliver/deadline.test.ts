import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { freePort } from '../helpers/free-port.ts';
import { outlast } from './helpers/outlast.ts';
import { endless, Receiver, status } from './helpers/receiver.ts';
import { destination, Rig } from './helpers/rig.ts';

/** A TCP server that keeps what it is sent, and answers as told. */
async function tcpServer(
  t: Test,
  onConnection: (socket: Socket) => void,
): Promise<{ port: number; bytes: () => number }> {
  const sockets = new Set<Socket>();
  let bytes = 0;
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('data', (chunk) => (bytes += chunk.length));
    onConnection(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as { port: number }).port, bytes: () => bytes };
}

/** A DNS lookup that ends when the test says so. */
function heldLookup() {
  const lookup = Promise.withResolvers<{ address: string; family: number }[]>();
  const asked = Promise.withResolvers<void>();
  const resolve = () => {
    asked.resolve();
    return lookup.promise;
  };
  return { lookup, asked, resolve };
}

t.test('times out an endless DNS lookup, and sends nothing if it ends later', async (t) => {
  const server = await tcpServer(t, () => {});
  const { lookup, asked, resolve } = heldLookup();
  const rig = await Rig.start(t, {
    destinations: [destination(`http://stalled.example:${server.port}/`)],
    network: { resolve },
  });
  await rig.send(1);
  await asked.promise;
  await outlast(rig);
  t.same(rig.outcomes, [['retry', 'timeout']]);
  await rig.stop();
  lookup.resolve([{ address: '127.0.0.1', family: 4 }]);
  await new Promise((resolve) => setImmediate(resolve));
  t.equal(server.bytes(), 0);
});

t.test('sends nothing on a connection that is ready after the deadline', async (t) => {
  const server = await tcpServer(t, () => {});
  const { lookup, asked, resolve } = heldLookup();
  const rig = await Rig.start(t, {
    destinations: [destination(`http://late.example:${server.port}/`)],
    network: { resolve },
  });
  await rig.send(1);
  await asked.promise;
  await rig.clock.timer(5_000, 2);
  // The process is stopped: time passes, no timer fires, and the connection is there first.
  rig.clock.stall(5_000);
  lookup.resolve([{ address: '127.0.0.1', family: 4 }]);
  await rig.settled(1);
  t.same(rig.outcomes, [['retry', 'timeout']]);
  t.equal(server.bytes(), 0);
});

t.test('times out an endless TLS handshake without sending a request', async (t) => {
  const connected = Promise.withResolvers<void>();
  const server = await tcpServer(t, (socket) => socket.once('data', () => connected.resolve()));
  const rig = await Rig.start(t, { destinations: [destination(`https://127.0.0.1:${server.port}/`)] });
  await rig.send(1);
  await connected.promise;
  const hello = server.bytes();
  await outlast(rig);
  t.same(rig.outcomes, [['retry', 'timeout']]);
  t.equal(server.bytes(), hello, 'nothing followed the client hello');
});

t.test('times out and closes a connection that is never answered', async (t) => {
  const closed = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  const server = await tcpServer(t, (socket) => {
    socket.once('data', () => opened.resolve());
    socket.once('close', () => closed.resolve());
  });
  const rig = await Rig.start(t, { destinations: [destination(`http://127.0.0.1:${server.port}/`)] });
  await rig.send(1);
  await opened.promise;
  await outlast(rig);
  t.same(rig.outcomes, [['retry', 'timeout']]);
  await closed.promise;
});

t.test('does not take half a head for an answer', async (t) => {
  const server = await tcpServer(t, (socket) => socket.write('HTTP/1.1 200 OK\r\nx-slow: '));
  const rig = await Rig.start(t, { destinations: [destination(`http://127.0.0.1:${server.port}/`)] });
  await rig.send(1);
  await outlast(rig);
  t.same(rig.outcomes, [['retry', 'timeout']]);
});

for (const code of [200, 400, 503] as const) {
  t.test(`cuts off a slow body at the deadline, and keeps the status ${code}`, async (t) => {
    const dripping = Promise.withResolvers<void>();
    const receiver = await Receiver.start(t, (response) => {
      response.writeHead(code, { 'content-length': '1000' }).write('drip');
      dripping.resolve();
    });
    const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
    await rig.send(1);
    await dripping.promise;
    await outlast(rig);
    const [settlement] = rig.settlements;
    t.equal(settlement?.attempts[0]?.status, code);
    t.equal(settlement?.attempts[0]?.response, code === 200 ? null : 'drip', 'what came is kept');
    t.equal(settlement?.verdict.kind, { 200: 'delivered', 400: 'dead', 503: 'retry' }[code]);
  });
}

t.test('cuts off an endless body at 64 KiB, before the deadline', async (t) => {
  const { answer, cut } = endless(500);
  const receiver = await Receiver.start(t, answer);
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
  await rig.send(1);
  await rig.settled(1);
  const response = rig.settlements[0]?.attempts[0]?.response;
  t.equal(response?.length, 64 * 1024);
  await cut;
  const [logged] = await rig.store.attempts({ limit: 1 });
  t.equal(logged?.response?.length, 64 * 1024, 'and the attempt log holds it');
});

for (const [encoding, compress] of [
  ['gzip', gzipSync],
  ['br', brotliCompressSync],
] as const) {
  t.test(`inflates a ${encoding} bomb to 64 KiB at most`, async (t) => {
    const bomb = compress(Buffer.alloc(20_000_000, 'a'));
    t.ok(bomb.length < 64 * 1024, 'as it is sent it is below the limit');
    const receiver = await Receiver.start(
      t,
      (response) => void response.writeHead(500, { 'content-encoding': encoding }).end(bomb),
    );
    const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
    await rig.send(1);
    await rig.settled(1);
    t.equal(rig.settlements[0]?.attempts[0]?.response, 'a'.repeat(64 * 1024));
  });
}

t.test('survives a body that does not match its encoding', async (t) => {
  const receiver = await Receiver.start(
    t,
    (response) => void response.writeHead(500, { 'content-encoding': 'gzip' }).end('not gzip'),
  );
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
  await rig.send(1);
  await rig.settled(1);
  t.same(rig.outcomes, [['retry', 'status_500']]);
});

t.test('retries a connection that ends without an answer', async (t) => {
  const server = await tcpServer(t, (socket) => socket.once('data', () => socket.destroy()));
  const rig = await Rig.start(t, { destinations: [destination(`http://127.0.0.1:${server.port}/`)] });
  await rig.send(1);
  await rig.settled(1);
  t.equal(rig.outcomes[0]?.[0], 'retry');
  t.equal(rig.settlements[0]?.attempts[0]?.status, null);
});

t.test('retries an answer that is not HTTP', async (t) => {
  const server = await tcpServer(t, (socket) => socket.once('data', () => socket.end('SSH-2.0-hello\r\n\r\n')));
  const rig = await Rig.start(t, { destinations: [destination(`http://127.0.0.1:${server.port}/`)] });
  await rig.send(1);
  await rig.settled(1);
  t.equal(rig.outcomes[0]?.[0], 'retry');
});

t.test('retries a port that nobody listens on as a connection error', async (t) => {
  const rig = await Rig.start(t, { destinations: [destination(`http://127.0.0.1:${await freePort()}/`)] });
  await rig.send(1);
  await rig.settled(1);
  t.same(rig.outcomes, [['retry', 'ECONNREFUSED']]);
});

t.test('keeps and reuses connections', async (t) => {
  const receiver = await Receiver.start(t, status(200));
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
  for (let round = 1; round <= 20; round += 1) {
    await rig.send(10);
    await rig.settled(round * 10);
  }
  t.equal(receiver.requests.length, 200);
  t.ok(receiver.connections <= 16, `no more connections than a new endpoint's window (${receiver.connections})`);
});

t.test('opens no more connections than attempts in flight', async (t) => {
  const receiver = await Receiver.start(t, status(200));
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
  await rig.send(2_000);
  await rig.settled(2_000);
  t.ok(receiver.connections <= 64, `no more than a fast endpoint's window (${receiver.connections})`);
});

t.test('closes an idle connection before the receiver does', async (t) => {
  const server = createHttpServer((_, response) => response.writeHead(200, { 'keep-alive': 'timeout=3' }).end());
  const closed = once(server, 'connection').then(([socket]) => once(socket, 'end'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const { port } = server.address() as { port: number };
  const rig = await Rig.start(t, { destinations: [destination(`http://127.0.0.1:${port}/`)] });
  await rig.send(1);
  await rig.settled(1);
  await closed;
});
