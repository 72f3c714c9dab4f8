import cron from 'node-cron';
import t, { type Test } from 'tap';
import { Ticks } from '../../jobs/schedule/due-times.ts';
import { createSchedules } from '../../jobs/schedule/schedule.ts';
import { type Clock, systemClock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { Store } from '../../src/store/port.ts';
import { audience, createRig, type Rig } from './helpers/rig.ts';

const at = (iso: string) => Date.parse(iso);
const missed = (schedule: string, timezone: string | null, last: string, now: string) =>
  new Ticks(schedule, timezone).last(at(last), at(now), 2).length;

t.test('counts ticks between the last run and now as missed', async (t) => {
  t.equal(missed('0 3 * * *', 'UTC', '2026-03-01T03:00:00Z', '2026-03-02T02:59:59Z'), 0);
  t.equal(missed('0 3 * * *', 'UTC', '2026-03-01T03:00:00Z', '2026-03-02T03:00:00Z'), 1);
  t.equal(missed('0 3 * * *', 'Europe/Berlin', '2026-03-01T03:00:00Z', '2026-03-02T01:59:59Z'), 0);
  t.equal(missed('0 3 * * *', 'Europe/Berlin', '2026-03-01T03:00:00Z', '2026-03-02T02:00:00Z'), 1);
  t.equal(missed('*/10 * * * * *', 'UTC', '2026-03-01T03:00:01Z', '2026-03-01T03:00:09Z'), 0);
  t.equal(missed('*/10 * * * * *', 'UTC', '2026-03-01T03:00:01Z', '2026-03-01T03:00:10Z'), 1);
  t.equal(missed('0 3 * * *', 'UTC', '2026-03-01T03:00:00Z', '2026-03-03T03:00:00Z'), 2);
  t.equal(missed('* * * * *', 'UTC', '2026-01-01T00:00:00Z', '2026-03-03T03:00:00Z'), 2, 'as far as two');
});

t.test('counts no missed ticks of quarterly and yearly schedules before they are due', async (t) => {
  t.equal(missed('0 0 1 1 *', 'UTC', '2026-01-02T00:00:00Z', '2026-12-31T23:59:59Z'), 0);
  t.equal(missed('0 0 1 1 *', 'UTC', '2026-01-02T00:00:00Z', '2027-01-01T00:00:00Z'), 1);
  const quarters = new Ticks('0 0 1 1,4,7,10 *', 'Asia/Kathmandu').last(
    at('2026-01-02T00:00:00Z'),
    at('2026-11-01T00:00:00Z'),
    9,
  );
  t.same(
    quarters.map((tick) => new Date(tick).toISOString()),
    ['2026-09-30T18:15:00.000Z', '2026-06-30T18:15:00.000Z', '2026-03-31T18:15:00.000Z'],
  );
  t.equal(missed('0 0 29 2 *', 'UTC', '2024-03-01T00:00:00Z', '2032-03-01T00:00:00Z'), 2);
});

t.test('ticks twice in a repeated hour, and never in a skipped one', async (t) => {
  const ticks = (schedule: string, from: string, to: string) =>
    new Ticks(schedule, 'Europe/Berlin').last(at(from), at(to), 9).map((tick) => new Date(tick).toISOString());
  t.same(ticks('15 2 * * *', '2026-10-24T20:00:00Z', '2026-10-25T10:00:00Z'), [
    '2026-10-25T01:15:00.000Z',
    '2026-10-25T00:15:00.000Z',
  ]);
  t.same(ticks('30 2 * * *', '2026-03-28T20:00:00Z', '2026-03-29T20:00:00Z'), []);
});

t.test('finds the next tick in a repeated hour', async (t) => {
  const next = (schedule: string, from: string, found: string) =>
    new Date(new Ticks(schedule, 'Europe/Berlin').next(at(from), at(found))).toISOString();
  t.equal(next('*/15 * * * *', '2026-10-24T23:50:00Z', '2026-10-25T01:00:00Z'), '2026-10-25T00:00:00.000Z');
  t.equal(next('*/15 * * * *', '2026-10-25T00:20:00Z', '2026-10-25T01:30:00Z'), '2026-10-25T00:30:00.000Z');
  t.equal(next('*/15 * * * *', '2026-10-25T01:20:00Z', '2026-10-25T01:30:00Z'), '2026-10-25T01:30:00.000Z');
  t.equal(next('30 2 * * *', '2026-10-25T00:50:00Z', '2026-10-26T01:30:00Z'), '2026-10-25T01:30:00.000Z');
  t.equal(next('30 2 25 10 *', '2026-06-01T00:00:00Z', '2026-10-25T01:30:00Z'), '2026-10-25T00:30:00.000Z');
  t.equal(next('0 3 * * *', '2026-10-24T23:50:00Z', '2026-10-25T02:00:00Z'), '2026-10-25T02:00:00.000Z');
  t.equal(next('30 2 * * *', '2026-03-29T00:50:00Z', '2026-03-30T00:30:00Z'), '2026-03-30T00:30:00.000Z');
});

/** Resolves as soon as a run of `key` is done. */
async function runOf(rig: Rig, key: string) {
  await new Promise<void>((resolve) => {
    const done = rig.onProgress;
    rig.onProgress = (step) => {
      done(step);
      if (step.key === key && step.phase === 'done') resolve();
    };
  });
}

t.test('runs schedules at their second, and stops them', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [
    audience('every_second', "select 'u' as user_id", { schedule: '* * * * * *' }),
    audience('by_hand', "select 'u' as user_id"),
    audience('paused', "select 'u' as user_id", { schedule: '* * * * * *', paused: true }),
  ];
  await rig.sync.run(['every_second']);
  // The store's time is behind the real one, so that nothing was missed and the next tick is ahead.
  const ran = runOf(rig, 'every_second');
  await rig.sync.start();
  await ran;
  await rig.sync.stop();
  t.same([...new Set((await rig.store.runs({ limit: 10 })).map(({ key }) => key))], ['every_second']);
  t.match(await rig.sync.run(['by_hand']), [{ error: { code: 'stopping' } }], 'nothing begins after the end');
  t.equal(cron.getTasks().size, 0, 'node-cron keeps nothing: reloads begin schedules anew, again and again');
});

t.test('runs what never ran, or was missed, once at the start', async (t) => {
  const rig = await createRig(t);
  rig.setTime('2026-03-01T12:00:00Z');
  rig.config.audiences = [audience('yearly', "select 'u' as user_id", { schedule: '0 0 1 12 *', timezone: 'UTC' })];
  const first = runOf(rig, 'yearly');
  await rig.sync.start();
  await first;
  await rig.sync.stop();
  const next = rig.another();
  await next.start();
  await next.stop();
  t.equal((await rig.store.runs({ limit: 10 })).length, 1, 'nothing was missed');
  rig.setTime('2026-12-02T00:00:00Z');
  const caughtUp = runOf(rig, 'yearly');
  const late = rig.another();
  await late.start();
  await caughtUp;
  await late.stop();
  t.equal((await rig.store.runs({ limit: 10 })).length, 2, 'caught up once');
});

t.test('keeps schedules running when the clock is set back', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('yearly', "select 'u' as user_id", { schedule: '0 0 1 12 *', timezone: 'UTC' })];
  const first = runOf(rig, 'yearly');
  await rig.sync.start();
  await first;
  await rig.sync.stop();
  rig.setTime('2026-03-01T07:00:00Z');
  const again = runOf(rig, 'yearly');
  const back = rig.another();
  await back.start();
  await again;
  await back.stop();
  const { lastRunAt } = (await rig.store.audience('yearly')) ?? {};
  t.equal(lastRunAt, rig.time(), 'and the run that lay in the future is over with');
  const quiet = rig.another();
  await quiet.start();
  await quiet.stop();
  t.equal((await rig.store.runs({ limit: 10 })).length, 2);
});

t.test('follows a run with one more for ticks during it, and notifies people', async (t) => {
  const waiting: (() => void)[] = [];
  let starts = 0;
  let started = () => {};
  const nextStart = () => new Promise<void>((resolve) => (started = resolve));
  const notices: string[] = [];
  let told = () => {};
  let ticked = () => {};
  const nextTick = () => new Promise<void>((resolve) => (ticked = resolve));
  const clock: Clock = { ...systemClock };
  const config = {
    folder: '',
    engines: {},
    traits: [],
    destinations: [],
    audiences: [audience('slow', 'select', { schedule: '* * * * * *' })],
  };
  const schedules = createSchedules({
    config: () => config,
    clock,
    log: { debug() {}, info() {}, warn() {}, error() {} },
    lastRunAt: async () => {
      ticked();
      return 0;
    },
    unfinished: async () => [],
    nextTryAt: async () => null,
    run: async () => {
      starts += 1;
      started();
      await new Promise<void>((resolve) => waiting.push(resolve));
      return true;
    },
    overdue: async (key) => {
      notices.push(key);
      told();
    },
  });
  const first = nextStart();
  const overdue = new Promise<void>((resolve) => (told = resolve));
  await schedules.start();
  await first;
  await overdue;
  for (let more = 0; more < 2; more += 1) await nextTick();
  t.same([starts, notices], [1, ['slow']], 'not overlapped, and told once');
  const second = nextStart();
  waiting[0]?.();
  await second;
  t.equal(starts, 2);
  schedules.stop();
  waiting[1]?.();
});

t.test('reports a sync begun at a start as overdue once it has run for an interval', async (t) => {
  let now = at('2026-11-30T12:00:00Z');
  let watch = () => {};
  let looked = () => {};
  const over = Promise.withResolvers<boolean>();
  const notices: string[] = [];
  const audiences = [audience('slow', 'select', { schedule: '0 0 * 12 *', timezone: 'UTC' })];
  const schedules = createSchedules({
    config: () => ({ folder: '', engines: {}, traits: [], destinations: [], audiences }),
    clock: {
      ...systemClock,
      now: () => now,
      monotonic: () => 0,
      after(_, callback) {
        watch = callback;
        return () => {};
      },
    },
    log: { debug() {}, info() {}, warn() {}, error() {} },
    async lastRunAt() {
      // Once its consequences are done.
      setImmediate(() => looked());
      return null;
    },
    unfinished: async () => [],
    nextTryAt: async () => null,
    run: () => over.promise,
    overdue: async (_, message) => void notices.push(message),
  });
  const lookAt = async (time: string) => {
    now = at(time);
    const done = new Promise<void>((resolve) => (looked = resolve));
    watch();
    await done;
  };
  await schedules.start();
  await lookAt('2026-12-01T00:00:10Z');
  t.same(notices, [], 'the first tick after a start says nothing');
  await lookAt('2026-12-02T00:00:10Z');
  t.match(notices, [/^slow is due again while its last sync still runs/]);
  schedules.stop();
  over.resolve(true);
});

t.test('stays silent about a tick that was served in the meantime', async (t) => {
  // Later than a busy machine needs until its schedule has begun.
  const tick = new Date(Math.ceil(Date.now() / 1000) * 1000 + 3000);
  const [date, time] = [
    `${tick.getUTCDate()} ${tick.getUTCMonth() + 1} *`,
    `${tick.getUTCMinutes()} ${tick.getUTCHours()}`,
  ];
  const audiences = [audience('a', 'select', { schedule: `${tick.getUTCSeconds()} ${time} ${date}`, timezone: 'UTC' })];
  const start = tick.getTime() - 2000;
  const look = Promise.withResolvers<() => void>();
  const running = Promise.withResolvers<void>();
  const looked = Promise.withResolvers<void>();
  const over = Promise.withResolvers<boolean>();
  const notices: string[] = [];
  let last: number | null = null;
  let runs = 0;
  const schedules = createSchedules({
    config: () => ({ folder: '', engines: {}, traits: [], destinations: [], audiences }),
    clock: {
      ...systemClock,
      now: () => start,
      after(ms, callback) {
        if (ms === 10_000) look.resolve(callback);
        return () => {};
      },
    },
    log: { debug() {}, info() {}, warn() {}, error() {} },
    async lastRunAt() {
      if (runs === 2) setImmediate(looked.resolve);
      return last;
    },
    unfinished: async () => [],
    nextTryAt: async () => null,
    async run() {
      runs += 1;
      // At the start another process has the lease; its run is the last one when the tick comes.
      if (runs === 1) return false;
      running.resolve();
      return over.promise;
    },
    async overdue(_, message) {
      notices.push(message);
      looked.resolve();
    },
  });
  t.teardown(() => schedules.stop());
  await schedules.start();
  const lookAgain = await look.promise;
  last = start;
  await running.promise;
  lookAgain();
  await looked.promise;
  t.same(notices, []);
  over.resolve(true);
});

/** Schedules over a sync that never runs, as if another process has the lease; resolves to the notices. */
async function announced(t: Test, last: string, now: string, schedule: string): Promise<string> {
  const time = at(now);
  const audiences = [audience('late', 'select', { schedule, timezone: 'UTC' })];
  const config = { folder: '', engines: {}, traits: [], destinations: [], audiences };
  return new Promise((resolve, reject) => {
    const schedules = createSchedules({
      config: () => config,
      clock: { ...systemClock, now: () => time },
      log: { debug() {}, info() {}, warn() {}, error() {} },
      lastRunAt: async () => at(last),
      unfinished: async () => [],
      nextTryAt: async () => null,
      run: async () => false,
      overdue: async (_, message) => resolve(message),
    });
    t.teardown(() => schedules.stop());
    schedules.start().catch(reject);
  });
}

t.test('announces a tick missed by more than its interval at the start', async (t) => {
  const message = await announced(t, '2026-03-01T03:00:05Z', '2026-03-03T03:00:01Z', '0 3 * * *');
  t.match(message, /late missed a tick.*2026-03-01T03:00:05/);
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', "select 'u' as user_id", { schedule: '0 3 * * *', timezone: 'UTC' })];
  await rig.sync.run();
  rig.setTime('2026-03-02T03:00:01Z');
  const ran = runOf(rig, 'a');
  await rig.sync.start();
  await ran;
  await rig.sync.stop();
  t.same(rig.notices, [], 'one missed tick is caught up without a word');
});

t.test('announces an audience whose lease another process holds over two ticks', async (t) => {
  // At the start nothing is missed; the ticks are real ones, later than the time of the clock.
  const before = new Date(Date.now() - 1).toISOString();
  t.match(await announced(t, before, before, '* * * * * *'), /late missed a tick/);
});

t.test('continues a schedule after the store was away', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', "select 'u' as user_id", { schedule: '0 0 1 12 *' })];
  const fence = await rig.store.takeLease('sync:a', 60_000);
  let failures = 0;
  const store: Store = {
    ...rig.store,
    async runs(filter) {
      // The look after the start, at which another process held the lease.
      if (filter.states === undefined || failures > 0) return rig.store.runs(filter);
      failures += 1;
      if (fence) await rig.store.releaseLease(fence);
      throw new RollcallError('store_failed', 'The store is away.');
    },
  };
  const after: Clock['after'] = (ms, callback) => systemClock.after(Math.min(ms, 10), callback);
  const ran = runOf(rig, 'a');
  const sync = rig.another({ store, clock: { ...systemClock, now: rig.time, after } });
  await sync.start();
  await ran;
  await sync.stop();
  t.equal(failures, 1);
});

t.test("doesn't repeat a tick that another process serves before the lease is taken", async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', "select 'u' as user_id", { schedule: '0 0 1 12 *' })];
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  let leases = 0;
  const store: Store = {
    ...rig.store,
    async takeLease(lease, ttl) {
      leases += 1;
      if (leases === 1) await rig.sync.run();
      return rig.store.takeLease(lease, ttl);
    },
    async releaseLease(fence) {
      await rig.store.releaseLease(fence);
      end();
    },
  };
  const late = rig.another({ store });
  await late.start();
  await ended;
  await late.stop();
  t.equal((await rig.store.runs({ limit: 10 })).length, 1);
});

t.test('never runs one audience in two processes at once', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', 'select unnest(range(1, 20001))::varchar as user_id')];
  const [ours, theirs] = await Promise.all([rig.sync.run(), rig.another().run()]);
  t.match([ours, theirs], [[{ error: null }], [{ error: null }]]);
  const runs = [...(ours[0]?.runs ?? []), ...(theirs[0]?.runs ?? [])];
  t.same(
    runs.map(({ sent }) => sent).toSorted((a, b) => a - b),
    [0, 20_000],
    'the later one finds nothing to do',
  );
});

t.test('continues a stopped run where it was', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', 'select unnest(range(1, 20001))::varchar as user_id')];
  let batches = 0;
  const stopped = rig.another({
    accept: async (...parameters) => {
      const result = await rig.accept(...parameters);
      // Only those that are stored count: a busy store is sent the same again.
      batches += 1;
      if (batches === 2) void stopped.stop();
      return result;
    },
  });
  t.match(await stopped.run(), [{ error: { code: 'stopping' } }]);
  t.match(await rig.store.runs({ limit: 1 }), [{ state: 'sending', sent: 10_000, cursor: '10000' }]);
  t.same(rig.notices, [], 'nobody is woken for it');
  const [report] = await rig.sync.run();
  t.match(report?.runs, [
    { state: 'done', first: true, sent: 20_000 },
    { state: 'done', first: false, sent: 0 },
  ]);
  t.equal((await rig.deliver()).get('crm')?.length, 20_000);
});

/** Schedules of one audience over a clock that is moved by hand; `watch` has them look at it. */
function watched(t: Test, schedule: string, start: string) {
  let [now, steady] = [at(start), 0];
  let lastRunAt = now;
  let watch = () => {};
  const ran: string[] = [];
  let next = Promise.withResolvers<void>();
  const schedules = createSchedules({
    config: () => ({
      ...{ folder: '', engines: {}, traits: [], destinations: [] },
      audiences: [audience('a', 'select', { schedule, timezone: 'Europe/Berlin' })],
    }),
    clock: {
      ...systemClock,
      now: () => now,
      monotonic: () => steady,
      after(ms, callback) {
        if (ms === 30_000) watch = callback;
        return () => {};
      },
    },
    log: { debug() {}, info() {}, warn() {}, error() {} },
    lastRunAt: async () => lastRunAt,
    unfinished: async () => [],
    nextTryAt: async () => null,
    async run() {
      ran.push(new Date(now).toISOString());
      lastRunAt = now;
      next.resolve();
      next = Promise.withResolvers();
      return true;
    },
    overdue: async () => {},
  });
  t.teardown(() => schedules.stop());
  return {
    schedules,
    ran,
    nextRun: () => next.promise,
    /** Lets half a minute pass, after which the clock shows this time. */
    async comesTo(time: string) {
      now = at(time);
      steady += 30_000;
      watch();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

t.test('restarts waiting schedules when the clock is set back', async (t) => {
  const { schedules, ran, comesTo, nextRun } = watched(t, '0 0 1 12 *', '2026-03-01T12:00:00Z');
  await schedules.start();
  await comesTo('2026-03-01T12:00:30Z');
  t.same(ran, []);
  const run = nextRun();
  await comesTo('2026-03-01T09:00:00Z');
  await run;
  t.same(ran, ['2026-03-01T09:00:00.000Z'], 'what ran in what is the future now says nothing');
  await comesTo('2026-03-01T09:00:30Z');
  t.equal(ran.length, 1);
});

t.test('runs a tick in a repeated hour that no timer fired for', async (t) => {
  const { schedules, ran, comesTo, nextRun } = watched(t, '15 * * * *', '2026-10-25T00:15:01Z');
  await schedules.start();
  await comesTo('2026-10-25T01:14:59Z');
  t.same(ran, []);
  const run = nextRun();
  await comesTo('2026-10-25T01:15:29Z');
  await run;
  await comesTo('2026-10-25T01:15:59Z');
  t.same(ran, ['2026-10-25T01:15:29.000Z']);
});
