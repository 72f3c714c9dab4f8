import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { Clock } from '../../../src/kernel/clock.ts';
import type { Store } from '../../../src/store/port.ts';
import { openSqliteStore } from '../../../src/store/sqlite/store.ts';
import { accept, claim, message, retryAt, settle } from '../../contract/store-fixture.ts';
import { ManualClock } from '../../helpers/clock.ts';
import { startSharedThread } from '../../helpers/store-threads.ts';

const HOUR = 3_600_000;
const MINUTE = 60_000;

/** A file that processes open, each with the clock that its machine has then. */
async function file(t: Test) {
  const path = join(t.testdir({}), 'store.db');
  const open = async (clock: Clock): Promise<Store> => {
    const store = await openSqliteStore({ path, maxQueued: 1_000, clock, startThread: startSharedThread });
    t.teardown(() => store.close());
    return store;
  };
  return { open };
}

/** Leaves a delivery that is due in a minute, and another that is ready. */
async function leaveWork(store: Store): Promise<void> {
  const owner = await store.join(20_000);
  await accept(store, message());
  const claims = await claim(store, owner);
  await settle(store, owner, claims, { ...retryAt(store.time.now() + MINUTE), firstAt: store.time.now() });
  await store.leave(owner);
  await accept(store, message());
}

const ready = async (store: Store) => {
  const owner = await store.join(20_000);
  const claims = await claim(store, owner);
  await store.leave(owner);
  return claims;
};

for (const hours of [1, 5, 24 * 365 * 60]) {
  t.test(`continues in order after a clock that was ${hours} h fast is corrected`, async (t) => {
    const { open } = await file(t);
    const clock = new ManualClock();
    clock.jump(hours * HOUR);
    const before = await open(clock);
    await leaveWork(before);
    const newest = before.time.now();
    await before.close();
    clock.jump(-hours * HOUR);
    clock.stall(MINUTE);
    const after = await open(clock);
    t.ok(after.time.now() >= newest && after.time.now() <= newest + MINUTE, 'time goes on where it was');
    t.equal(after.time.toWall(after.time.now()), clock.now());
    t.equal((await ready(after)).length, 1, 'what was ready is ready at once');
    clock.stall(MINUTE);
    t.equal((await ready(after)).length, 2, 'what is due in a minute is due in a minute');
  });

  t.test(`tolerates a clock that is set back by ${hours} h while nothing runs`, async (t) => {
    const { open } = await file(t);
    const clock = new ManualClock();
    const before = await open(clock);
    await leaveWork(before);
    await before.close();
    clock.jump(-hours * HOUR);
    const after = await open(clock);
    t.equal((await ready(after)).length, 1);
    clock.stall(MINUTE);
    const claims = await ready(after);
    t.equal(claims.length, 2);
    t.ok(claims.every(({ acceptedAt }) => acceptedAt <= after.time.now()));
  });
}

t.test('keeps a step of the clock corrected over a restart', async (t) => {
  const { open } = await file(t);
  const clock = new ManualClock();
  const before = await open(clock);
  clock.jump(5 * HOUR);
  await leaveWork(before);
  await before.close();
  clock.stall(MINUTE);
  const after = await open(clock);
  t.equal(after.time.now(), clock.true);
  clock.jump(-5 * HOUR);
  t.equal(after.time.now(), clock.true);
});

t.test('counts a downtime as passed time', async (t) => {
  const { open } = await file(t);
  const clock = new ManualClock();
  const before = await open(clock);
  await leaveWork(before);
  await before.close();
  clock.stall(5 * HOUR);
  t.equal((await open(clock)).time.now(), clock.true);
});

t.test('does not take a step that is reversed while nothing runs for a downtime', async (t) => {
  const { open } = await file(t);
  const clock = new ManualClock();
  const before = await open(clock);
  clock.jump(-5 * HOUR);
  await leaveWork(before);
  await before.close();
  clock.jump(5 * HOUR);
  clock.stall(MINUTE);
  t.equal((await open(clock)).time.now(), clock.true);
});

t.test('a starting process adopts the store time of a running one, whatever its own clock says', async (t) => {
  const { open } = await file(t);
  const clock = new ManualClock();
  const serving = await open(clock);
  const owner = await serving.join(20_000);
  for (const step of [5 * HOUR, -10 * HOUR, 3 * HOUR]) {
    clock.stall(4_000);
    clock.jump(step);
    const beside = await open(clock);
    t.equal(beside.time.now(), clock.true);
    await beside.close();
    t.ok(await serving.heartbeat(owner, 20_000), 'and its lease lives');
  }
});

t.test('a starting process adopts the exact time of a running one if uptime has steps of hundredths', async (t) => {
  const { open } = await file(t);
  const clock = new ManualClock();
  const uptime = clock.uptime.bind(clock);
  clock.uptime = () => Math.floor(uptime() / 10) * 10;
  clock.stall(4);
  const serving = await open(clock);
  await serving.join(20_000);
  clock.stall(1_009);
  const beside = await open(clock);
  t.equal(beside.time.now(), clock.now());
  t.equal(beside.time.toWall(clock.now()), clock.now(), 'and shows what was written as it was written');
});

t.test('tolerates a command whose clock differs from that of the delivering process', async (t) => {
  const { open } = await file(t);
  const clock = new ManualClock();
  const serving = await open(clock);
  const owner = await serving.join(20_000);
  clock.stall(4_000);
  for (const ahead of [5 * HOUR, -5 * HOUR]) {
    const other = new ManualClock();
    other.stall(clock.uptime());
    other.jump(ahead);
    const command = await open(other);
    t.equal(command.time.now(), clock.true);
    await accept(command, message());
    await command.close();
  }
  t.equal((await claim(serving, owner)).length, 2);
  t.equal(serving.time.now(), clock.true);
});
