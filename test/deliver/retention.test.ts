import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { prune } from '../../src/deliver/housekeeping.ts';
import type { WorkerStore } from '../../src/deliver/worker-options.ts';
import { withTime } from '../../src/kernel/clock.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';
import { audience, leaseOf, run } from '../contract/store-fixture.ts';
import { ManualClock } from '../helpers/clock.ts';
import { Receiver } from './helpers/receiver.ts';
import { destination, Rig } from './helpers/rig.ts';

const HOUR = 3_600_000;

t.test('applies a reloaded attempts.keep from the next housekeeping on', async (t) => {
  let keep = 2 * HOUR;
  const ages: number[] = [];
  const receiver = await Receiver.start(t);
  const rig = await Rig.start(t, {
    destinations: [destination(receiver.url)],
    attemptRetention: () => keep,
    workerStore: (store): WorkerStore =>
      Object.assign(Object.create(store), {
        prune(before: number, limit: number) {
          ages.push(rig.clock.now() - before);
          return store.prune(before, limit);
        },
      }),
  });
  await rig.passUntil(() => ages.includes(2 * HOUR));
  keep = HOUR;
  const before = ages.length;
  await rig.passUntil(() => ages.length > before);
  t.equal(ages.at(-1), HOUR);
  await rig.stopInTime();
});

t.test('looks for old rows each half minute while there are some, else each five minutes', async (t) => {
  const receiver = await Receiver.start(t);
  let looks = 0;
  let old = 0;
  const rig = await Rig.start(t, {
    destinations: [destination(receiver.url)],
    workerStore: (store): WorkerStore =>
      Object.assign(Object.create(store), {
        prune: async () => {
          looks += 1;
          return old;
        },
      }),
  });
  await rig.passUntil(() => looks === 1);
  await rig.pass(280_000);
  t.equal(looks, 1);
  old = 1;
  await rig.passUntil(() => looks === 2);
  await rig.pass(70_000);
  t.equal(looks, 4);
  await rig.stopInTime();
});

t.test('keeps records for their time, however far the store time is from the clock', async (t) => {
  const path = join(t.testdir({}), 'store.db');
  const open = (clock: ManualClock) => openSqliteStore({ path, maxQueued: 100, clock });
  const ahead = await open(new ManualClock(Date.UTC(2027, 1, 5)));
  await ahead.heartbeat(await ahead.join(60_000), 60_000);
  await ahead.close();

  const clock = new ManualClock(Date.UTC(2026, 0, 1));
  const store = await open(clock);
  t.teardown(() => store.close());
  t.equal(store.time.now(), Date.UTC(2027, 1, 5), 'the store goes on from where it was');
  const fence = await leaseOf(store);
  for (const [age, id] of ['newest', 'newer'].entries())
    await store.saveRun(run({ id, state: 'done', startedAt: clock.now() - age }), fence, audience());
  await store.beginAudit({ who: 'ann', action: 'audience.sync', target: null, at: clock.now() });
  const pruneAll = () =>
    prune({
      store,
      clock: withTime(clock, () => store.time.now()),
      attemptRetention: 7 * 24 * HOUR,
      recordRetention: { runs: 90 * 24 * HOUR, regulations: 365 * 24 * HOUR, audit: 365 * 24 * HOUR },
      messageRetention: { keep: 0, maxSize: 0 },
      log: pino({ level: 'silent' }),
      queues: new Map(),
      giveBack: async () => {},
    });
  const kept = async () => [(await store.runs({ limit: 10 })).length, (await store.audits({ limit: 10 })).length];
  await pruneAll();
  t.same(await kept(), [2, 1]);
  clock.jump(400 * 24 * HOUR);
  await pruneAll();
  t.same(await kept(), [2, 1], 'and however far the clock is set ahead');
  clock.advance(24 * HOUR);
  await pruneAll();
  t.same(await kept(), [1, 1], 'which is believed after a day: audits are in the time of the store');
});
