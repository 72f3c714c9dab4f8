import { spawn } from 'node:child_process';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { outlast } from './helpers/outlast.ts';
import { endless, Receiver } from './helpers/receiver.ts';
import { destination, Rig } from './helpers/rig.ts';

const LISTEN = `const server = require('node:net').createServer();
server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => console.log(server.address().port));`;

/** A port that takes no more connections: the process that listens there is stopped, and its queue is full. */
async function fullPort(t: Test): Promise<number> {
  const child = spawn(process.execPath, ['-e', LISTEN], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => child.kill('SIGKILL'));
  const [line] = await once(child.stdout, 'data');
  child.kill('SIGSTOP');
  const port = Number(line);
  // Room for two; the others wait for ever.
  const fillers = Array.from({ length: 8 }, () => connect(port, '127.0.0.1').on('error', () => {}));
  t.teardown(() => {
    for (const socket of fillers) socket.destroy();
  });
  await Promise.race(fillers.map((socket) => once(socket, 'connect')));
  return port;
}

/** Counts the connections and the requests that undici made. */
function watchUndici(t: Test) {
  const seen = { connected: 0, requests: 0 };
  const onConnected = () => {
    seen.connected += 1;
  };
  const onRequest = () => {
    seen.requests += 1;
  };
  subscribe('undici:client:connected', onConnected);
  subscribe('undici:client:sendHeaders', onRequest);
  t.teardown(() => {
    unsubscribe('undici:client:connected', onConnected);
    unsubscribe('undici:client:sendHeaders', onRequest);
  });
  return seen;
}

t.test('times out a connection that is never established, and sends nothing', async (t) => {
  const port = await fullPort(t);
  const seen = watchUndici(t);
  const connecting = Promise.withResolvers<void>();
  const onConnect = () => connecting.resolve();
  subscribe('undici:client:beforeConnect', onConnect);
  const rig = await Rig.start(t, { destinations: [destination(`http://127.0.0.1:${port}/`)] });
  await rig.send(1);
  await connecting.promise;
  unsubscribe('undici:client:beforeConnect', onConnect);
  await outlast(rig);
  t.same(rig.outcomes, [['retry', 'timeout']]);
  t.same(seen, { connected: 0, requests: 0 });
});

/** A server that answers each connection's first bytes by hand. */
async function rawServer(t: Test, answer: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).once('data', () => answer(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as { port: number }).port}/`;
}

t.test('cuts off an endless head before the deadline', async (t) => {
  const cut = Promise.withResolvers<void>();
  const url = await rawServer(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\n');
    const more = () => {
      while (!socket.destroyed && socket.write(`x-more: ${'x'.repeat(1_000)}\r\n`));
      socket.once('drain', more);
    };
    socket.once('close', () => cut.resolve());
    more();
  });
  const rig = await Rig.start(t, { destinations: [destination(url)] });
  await rig.send(1);
  await rig.settled(1);
  t.match(rig.outcomes, [['retry', /OVERFLOW/]]);
  await cut.promise;
});

t.test('reports an answer that is not HTTP', async (t) => {
  const answers = [
    'SSH-2.0-OpenSSH_9.9\r\n',
    'HTTP/1.1 20x OK\r\n\r\n',
    'HTTP/1.1 099 Low\r\ncontent-length: 0\r\n\r\n',
  ];
  for (const answer of answers) {
    const url = await rawServer(t, (socket) => socket.end(answer));
    const rig = await Rig.start(t, { destinations: [destination(url)] });
    await rig.send(1);
    await rig.settled(1);
    t.same(rig.outcomes, [['retry', 'invalid_http']], answer);
  }
});

t.test('does not take informational answers for an answer', async (t) => {
  const informed = Promise.withResolvers<void>();
  const url = await rawServer(t, (socket) => {
    socket.write('HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n', () => informed.resolve());
  });
  const rig = await Rig.start(t, { destinations: [destination(url)] });
  await rig.send(1);
  await informed.promise;
  await outlast(rig);
  t.same(rig.outcomes, [['retry', 'timeout']]);
  t.equal(rig.settlements[0]?.attempts[0]?.status, null);
});

t.test('cuts off an endless body of a success, and keeps the success', async (t) => {
  const { answer, cut } = endless(200);
  const receiver = await Receiver.start(t, answer);
  const rig = await Rig.start(t, { destinations: [destination(receiver.url)] });
  await rig.send(1);
  await rig.settled(1);
  t.same(rig.verdicts, ['delivered']);
  await cut;
});
