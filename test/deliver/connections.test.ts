import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { exchange, post } from '../../src/deliver/exchange.ts';
import { createAgent } from '../../src/deliver/http/agent.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { Receiver } from './helpers/receiver.ts';

t.test('does not take back a connection twice whose request ended twice', async (t) => {
  const receiver = await Receiver.start(t);
  const agent = createAgent({ allow: ['127.0.0.0/8'], ca: [], proxy: null });
  t.teardown(() => agent.destroy());
  const { origin, pathname: path } = new URL(receiver.url);
  // A handler that fails at the end is told of its own failure.
  const failed = await new Promise<Error>((resolve) => {
    agent.dispatch(
      { origin, path, method: 'POST', body: '{}' },
      {
        onRequestStart: () => {},
        onResponseEnd: () => {
          throw new Error('failed at the end');
        },
        onResponseError: (_, error) => resolve(error),
      },
    );
  });
  t.equal(failed.message, 'failed at the end');
  const posts = Array.from({ length: 4 }, () =>
    post(agent, systemClock, { origin, path, headers: [], body: Buffer.from('{}') }),
  );
  t.same(
    (await Promise.all(posts)).map(({ outcome, error }) => [outcome, error]),
    posts.map(() => ['success', null]),
  );
});

t.test('leaves no connection behind for a request that undici rejects', async (t) => {
  const receiver = await Receiver.start(t);
  const agent = createAgent({ allow: ['127.0.0.0/8'], ca: [], proxy: null });
  t.teardown(() => agent.destroy());
  const { origin, pathname: path } = new URL(receiver.url);
  const request = { origin, path, body: Buffer.from('{}') };
  const refused = await post(agent, systemClock, { ...request, headers: ['x-bad', 'a\nb'] });
  t.match(refused, { outcome: 'retry', error: 'UND_ERR_INVALID_ARG' });
  t.match(await post(agent, systemClock, { ...request, headers: [] }), { outcome: 'success' });
  t.equal(receiver.connections, 1);
});

/** A server that handles each request's bytes by hand; `requests` counts what it got by connection. */
async function rawServer(t: Test, onRequest: (socket: Socket, nth: number) => void) {
  const connections: number[] = [];
  const server = createServer((socket) => {
    const index = connections.push(0) - 1;
    socket.on('error', () => {});
    socket.on('data', () => {
      connections[index] = (connections[index] ?? 0) + 1;
      onRequest(socket, connections[index]);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, connections };
}

const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

t.test('repeats at once what a reused connection swallowed when it closed without a byte', async (t) => {
  const { origin, connections } = await rawServer(t, (socket) => socket.end(ANSWER));
  const agent = createAgent({ allow: ['127.0.0.0/8'], ca: [], proxy: null });
  t.teardown(() => agent.destroy());
  const request = { origin, path: '/', headers: [], body: Buffer.from('{}') };
  const failed: unknown[] = [];
  for (let count = 0; count < 300; count += 1) {
    // The next one begins in the same turn as the answer, before the server's close is seen.
    await new Promise<void>((resolve) =>
      exchange(agent, systemClock, request, ({ outcome, error }) => {
        if (outcome !== 'success') failed.push(error);
        resolve();
      }),
    );
  }
  t.same(failed, []);
  t.equal(connections.length, 300, 'each request was answered once, on a connection of its own');
});

t.test('reports a fresh connection that closes without a byte, and a reused one that began to answer', async (t) => {
  const silent = await rawServer(t, (socket) => socket.end());
  const partial = await rawServer(t, (socket, nth) => (nth === 1 ? socket.write(ANSWER) : socket.end('HTTP/1.1 2')));
  const interim = await rawServer(t, (socket, nth) =>
    nth === 1 ? socket.write(ANSWER) : socket.end('HTTP/1.1 100 Continue\r\n\r\n'),
  );
  const agent = createAgent({ allow: ['127.0.0.0/8'], ca: [], proxy: null });
  t.teardown(() => agent.destroy());
  const send = (origin: string) =>
    post(agent, systemClock, { origin, path: '/', headers: [], body: Buffer.from('{}') });
  t.match(await send(silent.origin), { outcome: 'retry', error: 'UND_ERR_SOCKET' });
  t.same(silent.connections, [1]);
  for (const { origin, connections } of [partial, interim]) {
    t.match(await send(origin), { outcome: 'success' });
    t.match(await send(origin), { outcome: 'retry' });
    t.same(connections, [2]);
  }
});

t.test('repeats on one fresh connection only', async (t) => {
  const { origin, connections } = await rawServer(t, (socket, nth) => {
    if (connections.length === 1 && nth === 1) socket.write(ANSWER);
    else socket.destroy();
  });
  const agent = createAgent({ allow: ['127.0.0.0/8'], ca: [], proxy: null });
  t.teardown(() => agent.destroy());
  const request = { origin, path: '/', headers: [], body: Buffer.from('{}') };
  t.match(await post(agent, systemClock, request), { outcome: 'success' });
  t.match(await post(agent, systemClock, request), { outcome: 'retry' });
  t.same(connections, [2, 1]);
});
