import { mkdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { openEngine } from '../../jobs/engines/open.ts';
import type { Engine } from '../../jobs/engines/port.ts';
import { waitAfter } from '../../jobs/run/retry-times.ts';
import { type Clock, systemClock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { audience, createRig, duckdbAt, type Rig, trait, values } from './helpers/rig.ts';

const ENDLESS = `with recursive n as (select 1 as i union all select i + 1 from n where i < 2000000000) select i as user_id from n`;

const history = (rig: Rig, key: string) => rig.store.runs({ key, limit: 20 });

/** A clock whose timers wait to be let go. Time passes with every look at it, so that only waits for a time are odd. */
function manualClock(start: number) {
  const timers: { readonly ms: number; readonly callback: () => void }[] = [];
  let asked = () => {};
  let now = start;
  const clock: Clock = {
    ...systemClock,
    now() {
      now += 1;
      return now;
    },
    // Leases are renewed by it.
    roughly: () => () => {},
    after(ms, callback) {
      const timer = { ms, callback };
      timers.push(timer);
      asked();
      return () => {
        const index = timers.indexOf(timer);
        if (index >= 0) timers.splice(index, 1);
      };
    },
  };
  return {
    clock,
    /** Waits for the next try to be planned; resolves to its wait in seconds, and a function that starts it. */
    async nextTry() {
      for (;;) {
        const timer = timers.find(({ ms }) => ms % 1000 !== 0);
        const come = () => {
          now += timer?.ms ?? 0;
          timer?.callback();
        };
        if (timer) return { seconds: Math.ceil(timer.ms / 1000), come };
        await new Promise<void>((resolve) => (asked = resolve));
      }
    },
  };
}

t.test("records a try whose engine can't be opened as a run with phase, time, error and code", async (t) => {
  const rig = await createRig(t);
  mkdirSync(join(rig.config.folder, 'audiences.duckdb'));
  rig.config.audiences = [audience('a', "select 'u' as user_id")];
  const [report] = await rig.sync.run();
  t.equal(report?.error?.code, 'engine_unreachable');
  const failed = { state: 'failed', phase: 'open', code: 'engine_unreachable', reason: /audiences\.duckdb/ };
  const runs = await history(rig, 'a');
  t.match(runs, [{ ...failed, startedAt: rig.time(), finishedAt: rig.time() }]);
  t.match(rig.notices, [{ event: 'sync_failed', run: runs[0]?.id, code: 'engine_unreachable' }]);
  rig.config.audiences = [audience('a', "select 'u' as user_id", { engine: 'gone' })];
  await rig.sync.run();
  t.match(await history(rig, 'a'), [{ phase: 'open', reason: /no engine gone/ }, failed]);
  rmdirSync(join(rig.config.folder, 'audiences.duckdb'));
  rig.config.audiences = [audience('a', "select 'u' as user_id")];
  t.match(await rig.sync.run(), [{ runs: [{ state: 'done', phase: 'done', first: true, sent: 1 }] }]);
});

t.test('retries a failed scheduled run with growing waits', async (t) => {
  const rig = await createRig(t);
  const { clock, nextTry } = manualClock(rig.time());
  let failures = 3;
  const done = Promise.withResolvers<void>();
  rig.onProgress = ({ phase, run }) => phase === 'done' && run !== '' && done.resolve();
  rig.config.audiences = [audience('daily', "select 'u' as user_id", { schedule: '0 0 1 12 *' })];
  const sync = rig.another({
    clock,
    async openEngine(config, options) {
      failures -= 1;
      if (failures >= 0) throw new RollcallError('engine_unreachable', 'It is away.');
      return openEngine(config, options);
    },
  });
  await sync.start();
  for (const wait of [5, 10, 20]) {
    const { seconds, come } = await nextTry();
    t.equal(seconds, wait);
    come();
  }
  await done.promise;
  await sync.stop();
  t.match(await history(rig, 'daily'), [{ state: 'done' }, ...Array(3).fill({ code: 'engine_unreachable' })]);
  t.same(
    rig.notices.map(({ event }) => event),
    ['sync_failed', 'sync_failed', 'sync_failed'],
  );
  t.same([1, 2, 8, 9, 50].map(waitAfter), [5_000, 10_000, 640_000, 900_000, 900_000]);
});

t.test('retries what failed before the start at once, then with waits', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', 'select nonsense', { schedule: '0 0 1 12 *' })];
  await rig.sync.run();
  rig.setTime('2026-03-01T12:01:00Z');
  const { clock, nextTry } = manualClock(rig.time());
  const other = rig.another({ clock });
  await other.start();
  t.equal((await nextTry()).seconds, 5);
  await other.stop();
  t.equal((await history(rig, 'a')).length, 2);
});

t.test('cancels SQL after its timeout without affecting the next sync', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', ENDLESS, { timeout: 100 })];
  t.match(await rig.sync.run(), [{ error: { code: 'sql_timeout', message: /^a: .*100 ms/ } }]);
  t.match(await history(rig, 'a'), [{ state: 'failed', phase: 'stage', code: 'sql_timeout' }]);
  await t.rejects(rig.sync.plan(['a']), { code: 'sql_timeout' }, 'a plan, too');
  rig.config.audiences = [audience('a', "select 'u' as user_id")];
  t.match(await rig.sync.run(), [{ runs: [{ state: 'done', members: 1 }] }]);
});

t.test('ends plans and runs that are being computed when the process stops', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', ENDLESS), audience('b', ENDLESS)];
  const computing = Promise.withResolvers<void>();
  rig.onProgress = ({ phase }) => phase === 'stage' && computing.resolve();
  const run = rig.sync.run(['a']);
  const plan = rig.sync.plan(['b']);
  plan.catch(() => {});
  await computing.promise;
  await rig.sync.stop();
  const reason = 'Rollcall stopped before the run had computed what to send; the next sync computes anew.';
  t.match(await run, [{ error: { code: 'stopping', message: `a: ${reason}` } }]);
  await t.rejects(plan, { code: 'stopping', message: 'b: Rollcall is stopping.' }, 'a plan is no sync');
  t.match(await history(rig, 'a'), [{ state: 'failed', phase: 'stage', code: 'stopping', reason }]);
  t.match(await rig.store.audience('a'), { lastRunAt: null }, 'its tick is still due');
});

t.test('fails what a killed process was computing, and computes it again', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', "select 'u' as user_id")];
  await rig.sync.run();
  const [done] = await history(rig, 'a');
  const fence = await rig.store.takeLease('sync:a', 60_000);
  if (!fence || !done) throw new Error('no lease');
  await rig.store.saveRun({ ...done, id: 'killed', state: 'staged', startedAt: rig.time() + 1 }, fence);
  await rig.store.releaseLease(fence);
  rig.setTime('2026-03-01T12:01:00Z');
  t.match(await rig.sync.run(), [{ runs: [{ state: 'done', sent: 0 }] }]);
  t.match(await rig.store.run('killed'), { state: 'failed', code: 'interrupted' });
});

t.test('limits concurrent runs per engine, in order of arrival, but not queries', async (t) => {
  const rig = await createRig(t);
  rig.config.engines = { lake: { ...duckdbAt(join(rig.config.folder, 'a.duckdb')), concurrency: 3 } };
  const keys = Array.from({ length: 12 }, (_, n) => `a${n}`);
  rig.config.audiences = keys.map((key) => audience(key, "select 'u' as user_id"));
  const open = new Set<Engine>();
  const most = { runs: 0, looks: 0 };
  const sync = rig.another({
    async openEngine(config, options) {
      const engine = await openEngine(config, options);
      if (options.readOnly) return engine;
      open.add(engine);
      most.runs = Math.max(most.runs, open.size);
      const close = () => {
        open.delete(engine);
        return engine.close();
      };
      return { ...engine, close };
    },
  });
  const reports = await Promise.all([...keys.map((key) => sync.run([key])), sync.plan(['a0'])]);
  t.equal(reports.flat().filter((report) => 'error' in report && report.error !== null).length, 0);
  t.equal(most.runs, 3);
  t.equal(open.size, 0);
});

/** A trait of 12,000 users, of which the first 1,000 are sent when the store fails for good. */
async function halfSent(t: Test) {
  const rig = await createRig(t);
  rig.config.traits = [trait('n', `select i::varchar as user_id, 1 as value from range(10000, 22000) as t(i)`)];
  let batches = 0;
  const failing = rig.another({
    accept: async (...parameters) => {
      batches += 1;
      if (batches > 1) throw new Error('The value makes no sense.');
      return rig.accept(...parameters);
    },
  });
  t.match(await failing.run(), [{ error: { code: 'engine_failed' } }]);
  const [run] = await history(rig, 'n');
  t.match(run, { state: 'sending', phase: 'send', code: 'engine_failed', sent: 1000 }, 'as the report says');
  t.equal((await rig.deliver()).get('crm')?.length, 1000);
  return { rig, run: run?.id ?? '' };
}

t.test('rejects the rest of an unfinishable run, and sends what is due to those that got a part', async (t) => {
  const { rig, run } = await halfSent(t);
  t.match(await rig.sync.reject(run), { error: null, runs: [{ state: 'rejected', sent: 1000 }] });
  await t.rejects(rig.sync.reject(run), { code: 'unknown_run' });
  rig.config.traits = [trait('n', `select i::varchar as user_id, 2 as value from range(10999, 11001) as t(i)`)];
  t.match(await rig.sync.run(), [{ error: null, runs: [{ entered: 1, exited: 999, changed: 1 }] }]);
  const told = values((await rig.deliver()).get('crm'), 'n');
  t.match(told, { 10000: null, 10999: 2, 11000: 2 });
  t.equal(Object.keys(told).length, 1001);
});

t.test('replaces an unfinishable run by resync and retire', async (t) => {
  for (const action of ['resync', 'retire'] as const) {
    const { rig, run } = await halfSent(t);
    t.match(await rig.sync[action]('n'), {
      error: null,
      runs: [
        { id: run, state: 'rejected' },
        { action, state: 'done' },
      ],
    });
    t.equal((await rig.deliver()).get('crm')?.length, action === 'resync' ? 12_000 : 1000);
  }
});

t.test('requires no retirement of an audience that was never sent', async (t) => {
  const rig = await createRig(t);
  const expect = { freshness: null, minRows: 2, maxChange: null, dbt: null };
  const shy = audience('shy', "select 'u' as user_id", { expect });
  rig.config.audiences = [audience('broken', 'select nonsense'), shy, audience('known', "select 'u' as user_id")];
  await rig.sync.run();
  const [held] = await rig.store.runs({ key: 'shy', limit: 1 });
  rig.config.audiences = [];
  const orphans = async () => (await rig.sync.orphans()).map(({ key }) => key);
  t.same(await orphans(), ['known', 'shy'], 'one that is held may yet tell somebody');
  await rig.sync.reject(held?.id ?? '');
  t.same(await orphans(), ['known']);
  t.match(await rig.sync.retire('broken'), { error: null });
  t.match(await rig.sync.retire('known'), { error: null, runs: [{ exited: 1 }] });
  t.same(await orphans(), []);
});

t.test('refuses a column that would overwrite the trait of another audience', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('vip', "select 'u' as user_id")];
  const profile = trait('profile', "select 'u' as user_id, 1 as orders, true as vip");
  rig.config.traits = [profile];
  t.match(await rig.sync.run(['profile']), [{ error: { code: 'column_taken', message: /column vip.*of vip/ } }]);
  rig.config.audiences = [];
  t.match(await rig.sync.run(['profile']), [{ error: null }]);
  rig.config.traits = [profile, trait('other', "select 'u' as user_id, 2 as orders, 1 as x")];
  t.match(await rig.sync.run(['other']), [{ error: { code: 'column_taken', message: /of profile/ } }]);
  t.match(await rig.sync.run(['profile']), [{ error: null }], 'nor is it its own');
});
