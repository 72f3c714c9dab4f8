import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import t from 'tap';
import { ManualClock } from '../helpers/clock.ts';
import { testDatabase } from '../helpers/database.ts';
import { Receiver, status } from './helpers/receiver.ts';
import { destination, Rig } from './helpers/rig.ts';

t.test('finds within seconds what a leaving process has released', async (t) => {
  const clock = new ManualClock();
  const database = await testDatabase(t, clock, { path: join(t.testdir(), 'rollcall.db') });
  const start = () => Rig.start(t, { destinations: [destination(receiver.url)], database });
  const open: ServerResponse[] = [];
  const receiver = await Receiver.start(t, (response) => void open.push(response));
  const leaving = await start();
  await leaving.send(30);
  await receiver.received(16);
  const staying = await start();
  await staying.pass(3_000);
  t.same(await staying.store.backlog(), [{ destination: 'crm', pending: 30, dead: 0, queued: 30, heldOut: 0 }]);
  t.equal(staying.settlements.length, 0, 'all are in the hands of the one that leaves');
  let foundAt = Number.POSITIVE_INFINITY;
  receiver.answer = (response, ...given) => {
    foundAt = Math.min(foundAt, clock.now());
    status(200)(response, ...given);
  };
  // None is delivered, so that the number of those pending stays what it was.
  for (const response of open.splice(0)) response.writeHead(503).end();
  await leaving.stop();
  t.same(await staying.store.backlog(), [{ destination: 'crm', pending: 30, dead: 0, queued: 14, heldOut: 0 }]);
  const leftAt = clock.now();
  while (staying.settlements.length < 30) await staying.passQuickly(1_000);
  t.ok(foundAt < leftAt + 10_000, `after ${foundAt - leftAt} ms`);
});
