import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import t from 'tap';
import { onOwnConnection } from '../../src/store/postgres/own-connection.ts';

t.test('ends work at once that is aborted while it connects', async (t) => {
  // The end comes before everything else, and no server understands that.
  const server = createServer((socket) => socket.once('data', () => socket.destroy())).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const url = `postgres://rollcall@127.0.0.1:${(server.address() as AddressInfo).port}/rollcall`;
  const giveUp = new AbortController();
  const work = onOwnConnection(url, giveUp.signal, async () => t.fail('there is no connection'));
  giveUp.abort();
  await t.rejects(work, { code: 'stopping' });
});
