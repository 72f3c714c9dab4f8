import t, { type Test } from 'tap';
import { RETRY_WINDOW } from '../../src/kernel/retry.ts';
import { ManualClock } from '../helpers/clock.ts';
import { testDatabase } from '../helpers/database.ts';
import { FOUR_HOURS } from './helpers/four-hours.ts';
import { Receiver, status } from './helpers/receiver.ts';
import { destination, Rig } from './helpers/rig.ts';

const HOUR = 3_600_000;

/** A service that was stopped for five hours (or whose clock was set while it was) with 200 behind a dead endpoint. */
async function stopped(t: Test) {
  const clock = new ManualClock();
  const database = await testDatabase(t, clock);
  const store = await database.open();
  const receiver = await Receiver.start(t, (response) => void response.destroy());
  const destinations = [destination(receiver.url)];
  const before = await Rig.start(t, { destinations, database });
  await before.send(200);
  await before.untilDead();
  await before.stopInTime();
  const tried = new Set(receiver.requests.map(({ headers }) => headers['idempotency-key'])).size;
  t.ok(tried > 0 && tried < 200);
  clock.stall(5 * HOUR);
  return { receiver, store, tried, start: () => Rig.start(t, { destinations, database }) };
}

t.test('delivers all untried messages to a recovered endpoint after a downtime', async (t) => {
  const { receiver, store, tried, start } = await stopped(t);
  receiver.answer = status(200);
  const rig = await start();
  await rig.passUntil(() => rig.delivered() >= 200 - tried);
  await rig.pass(60_000);
  const letters = await store.deadLetters({ limit: 1_000 });
  t.ok(letters.length <= tried, 'only of those that were tried before');
  t.ok(letters.every(({ attempts, reason }) => attempts > 0 && reason === 'expired'));
  await rig.stopInTime();
});

t.test('ends nothing after a downtime before the endpoint was tried', async (t) => {
  const { receiver, store, start } = await stopped(t);
  // It is asked, and says nothing for as long as it may.
  receiver.answer = () => {};
  const asked = receiver.requests.length;
  const rig = await start();
  while (receiver.requests.length === asked) await rig.pass(100, 100);
  const ended = rig.settlements.length;
  // Those in the way to the probe were tried before; housekeeping ends none.
  t.equal((await store.deadLetters({ limit: 1_000 })).length, ended);
  await rig.stopInTime();
});

t.test('probes for untried messages for four hours, however long nothing ran', FOUR_HOURS, async (t) => {
  const { store, start } = await stopped(t);
  const rig = await start();
  await rig.passQuickly(RETRY_WINDOW - HOUR / 2);
  const untried = (await store.deadLetters({ limit: 1_000 })).filter(({ attempts }) => attempts === 0);
  t.same(untried, []);
  const [backlog] = await store.backlog();
  t.ok((backlog?.pending ?? 0) > 0, 'the rest waits');
  await rig.passQuickly(HOUR);
  await rig.calm();
  t.same(
    (await store.backlog()).map(({ pending }) => pending),
    [0],
    'and no longer than that',
  );
  await rig.stopInTime();
});
