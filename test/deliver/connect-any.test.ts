import type { LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { type AddressInfo, createServer, Socket } from 'node:net';
import t from 'tap';
import { classifyError } from '../../src/deliver/classify.ts';
import { post } from '../../src/deliver/exchange.ts';
import { createAgent } from '../../src/deliver/http/agent.ts';
import { connectAny } from '../../src/deliver/http/connect-any.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { freePort } from '../helpers/free-port.ts';
import { slowHandshake } from '../helpers/slow-handshake.ts';

const v4 = { address: '127.0.0.1', family: 4 };
const other4 = { address: '127.0.0.2', family: 4 };
/** Of the range for documentation: nothing is there. */
const nowhere6 = { address: '2001:db8::1', family: 6 };

for (const [order, addresses] of [
  ['A and AAAA', [v4, nowhere6]],
  ['AAAA and A', [nowhere6, v4]],
] as const) {
  t.test(`reaches an endpoint with a handshake of a second and records ${order}`, async (t) => {
    const { port } = await slowHandshake(t);
    const agent = createAgent({ allow: ['127.0.0.0/8', '::/0'], ca: [], proxy: null, resolve: async () => addresses });
    t.teardown(() => agent.destroy());
    const request = { origin: `http://far.example:${port}`, path: '/', headers: [], body: Buffer.from('{}') };
    t.match(await post(agent, systemClock, request), { outcome: 'success', status: 200, error: null });
  });
}

const connected = (addresses: readonly LookupAddress[], port: number, timeout = 5_000) =>
  new Promise<Socket | Error>((resolve) => {
    connectAny({ host: 'any.example', port, lookup: async () => addresses, timeout, tls: null }, (...[error, socket]) =>
      resolve(error ?? socket),
    );
  });

t.test('takes the second address while the first is silent', async (t) => {
  const { port } = await slowHandshake(t, true);
  const server = createServer().listen(port, other4.address);
  await once(server, 'listening');
  t.teardown(() => server.close());
  const socket = await connected([v4, other4], port);
  t.match(socket, { remoteAddress: other4.address });
  if (socket instanceof Socket) socket.destroy();
});

t.test('fails with the error of the first address once all have failed', async (t) => {
  const error = await connected([v4, nowhere6, other4], await freePort());
  t.match(classifyError(error), { outcome: 'retry', error: 'ECONNREFUSED' });
});

t.test('gives up after its time, whatever is still on its way', async (t) => {
  const { port } = await slowHandshake(t, true);
  t.match(classifyError(await connected([v4], port, 300)), { outcome: 'retry', error: 'timeout' });
});

t.test('goes on at once after an address that refuses', async (t) => {
  const server = createServer((socket) => socket.end()).listen(0, v4.address);
  await once(server, 'listening');
  t.teardown(() => server.close());
  const socket = await connected([other4, { address: '::1', family: 6 }, v4], (server.address() as AddressInfo).port);
  t.match(socket, { remoteAddress: v4.address });
  if (socket instanceof Socket) socket.destroy();
});

t.test('tries sixteen addresses at most, of each family some', async (t) => {
  const port = await freePort();
  const named = Array.from({ length: 4_000 }, (_, n) => ({ address: `127.1.${n >> 8}.${n & 255}`, family: 4 }));
  const error = (await connected([...named, { address: '::1', family: 6 }], port)) as AggregateError;
  t.equal(error.errors.length, 16);
  t.ok(error.errors.some(({ address }) => address === '::1'));
});
