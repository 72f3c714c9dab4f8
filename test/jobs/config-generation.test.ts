import t, { type Test } from 'tap';
import { type OpenEngine, openEngine } from '../../jobs/engines/open.ts';
import type { Sync } from '../../jobs/index.ts';
import type { JobLog } from '../../jobs/run/run-context.ts';
import { audience, createRig, destination, type Rig, type TestConfig, values } from './helpers/rig.ts';

const OLD = "select unnest(['ann', 'bob']) as user_id";
const NEW = "select unnest(['bob', 'cyd']) as user_id";

/** A process with a configuration of its own, and what it logged. */
function process(
  rig: Rig,
  changes: Partial<TestConfig>,
  open?: OpenEngine,
): { readonly sync: Sync; readonly said: string[] } {
  const config = { ...rig.config, ...changes };
  const said: string[] = [];
  const log: JobLog = { debug() {}, info() {}, warn: (_fields, text) => void said.push(text), error() {} };
  return { sync: rig.another({ config: () => config, log, ...(open ? { openEngine: open } : {}) }), said };
}

const codes = async (sync: Sync, keys?: readonly string[]) =>
  (await sync.run(keys, { renames: true })).map(({ error, runs }) => error?.code ?? runs.at(-1)?.state ?? 'nothing');

async function members(t: Test, rig: Rig, key: string): Promise<Record<string, unknown>> {
  const told = values((await rig.deliver()).get('crm'), key);
  t.same(await rig.store.deadLetters({ limit: 1 }), []);
  return told;
}

t.test('leaves an audience to the newer configuration, forward and back', async (t) => {
  const rig = await createRig(t);
  const old = process(rig, { audiences: [audience('big', OLD)] });
  await old.sync.configured();
  t.same(await codes(old.sync), ['done']);
  t.same(await members(t, rig, 'big'), { ann: true, bob: true });
  const next = process(rig, { audiences: [audience('big', NEW)] });
  await next.sync.configured();
  t.same(await codes(old.sync), ['done'], 'until the newer has run it');
  t.same(await codes(next.sync), ['done']);
  t.same(await members(t, rig, 'big'), { ann: false, cyd: true });
  for (let tick = 0; tick < 3; tick += 1) t.same(await codes(old.sync), ['older_configuration']);
  t.same(await members(t, rig, 'big'), {});
  t.equal(old.said.length, 1, 'it is said once');
  t.match(old.said[0], /^big: a newer configuration/);
  t.same(rig.notices, [], 'it is no failure');
  // A rollback: one process with the old content starts, and the one that never ended has the same.
  const back = process(rig, { audiences: [audience('big', OLD)] });
  await back.sync.configured();
  t.same(await codes(old.sync), ['done']);
  t.same(await members(t, rig, 'big'), { ann: true, cyd: false });
  t.same(await codes(next.sync), ['older_configuration']);
  t.same(await codes(back.sync), ['done']);
  t.same(await members(t, rig, 'big'), {});
});

t.test('refuses manual syncs of an older configuration, and does none of them', async (t) => {
  const rig = await createRig(t);
  const old = process(rig, { audiences: [audience('big', OLD)] });
  await old.sync.configured();
  const next = process(rig, { audiences: [audience('big', NEW)] });
  await next.sync.run();
  await rig.deliver();
  for (const report of [await old.sync.resync('big'), await old.sync.retire('big')]) {
    t.equal(report.error?.code, 'older_configuration');
    t.same(report.runs, []);
  }
  t.same(await members(t, rig, 'big'), {});
});

t.test('lets two processes with equal definitions take turns with an audience', async (t) => {
  const rig = await createRig(t);
  const moved = { ...destination('crm'), secrets: ['another'], endpoints: destination('elsewhere').endpoints };
  const processes = [
    process(rig, { audiences: [audience('big', OLD), audience('small', OLD)] }),
    process(rig, { audiences: [audience('small', OLD), audience('big', OLD)], destinations: [moved] }),
    // It runs only one of them.
    process(rig, { audiences: [audience('big', OLD), audience('small', OLD, { paused: true })] }),
  ];
  for (const { sync } of processes) await sync.configured();
  for (const { sync } of [...processes, ...processes.toReversed()]) t.same(await codes(sync, ['big']), ['done']);
});

t.test('lets both configurations run what is the same in both', async (t) => {
  const rig = await createRig(t);
  const old = process(rig, { audiences: [audience('same', OLD), audience('big', OLD)] });
  await old.sync.configured();
  const next = process(rig, { audiences: [audience('same', OLD), audience('big', NEW)] });
  await next.sync.configured();
  t.same(await codes(next.sync), ['done', 'done']);
  t.same(await codes(old.sync), ['done', 'older_configuration']);
  t.same(await codes(next.sync), ['done', 'done']);
});

t.test('backfills a destination that an older configuration lacks only once', async (t) => {
  const rig = await createRig(t);
  const audiences = [audience('big', OLD)];
  const old = process(rig, { audiences });
  await old.sync.run();
  const next = process(rig, { audiences, destinations: [destination('crm'), destination('erp')] });
  t.same(await codes(next.sync), ['done']);
  const actions = async () => (await rig.store.runs({ limit: 100 })).map(({ action }) => action);
  t.same((await actions()).filter((action) => action === 'backfill').length, 1);
  for (let tick = 0; tick < 3; tick += 1) {
    t.same(await codes(old.sync), ['older_configuration']);
    t.same(await codes(next.sync), ['done']);
  }
  t.same((await actions()).filter((action) => action === 'backfill').length, 1);
  t.same((await rig.store.audience('big'))?.destinations, ['crm', 'erp']);
});

t.test('keeps a renamed audience from returning under its old name, or twice under the new one', async (t) => {
  const rig = await createRig(t);
  const old = process(rig, { audiences: [audience('old_name', OLD)] });
  await old.sync.run();
  await rig.deliver();
  const next = process(rig, { audiences: [audience('new_name', OLD)] });
  t.same(await codes(next.sync), ['done']);
  const told = (await rig.deliver()).get('crm');
  t.same(
    values(
      told?.filter(({ traits }) => 'old_name' in traits),
      'old_name',
    ),
    { ann: false, bob: false },
  );
  t.same(
    values(
      told?.filter(({ traits }) => 'new_name' in traits),
      'new_name',
    ),
    { ann: true, bob: true },
  );
  t.same(await codes(old.sync), ['older_configuration']);
  t.same(await codes(next.sync), ['done']);
  t.same((await rig.deliver()).get('crm'), []);
  t.same(
    (await rig.store.audiences()).map(({ key }) => key),
    ['new_name'],
  );
  const back = process(rig, { audiences: [audience('old_name', OLD)] });
  await back.sync.configured();
  t.same(await codes(old.sync), ['done'], 'and back');
  t.same(await codes(next.sync), ['older_configuration']);
  t.same(
    (await rig.store.audiences()).filter(({ endedAt }) => endedAt === null).map(({ key }) => key),
    ['old_name'],
  );
});

/** An engine that waits for a signal before it computes. */
function createHalted() {
  const computing = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const open: OpenEngine = async (config, options) => {
    const engine = await openEngine(config, options);
    const stage: typeof engine.stage = async (request) => {
      computing.resolve();
      await goOn.promise;
      return engine.stage(request);
    };
    return { ...engine, stage };
  };
  return { open, computing: computing.promise, goOn: goOn.resolve };
}

/** The destination's knowledge by audience and user. */
async function lastTold(rig: Rig): Promise<Record<string, unknown>> {
  const told = (await rig.deliver()).get('crm') ?? [];
  return Object.fromEntries(
    told.flatMap(({ userId, traits }) => Object.entries(traits).map(([key, value]) => [`${key} ${userId}`, value])),
  );
}

/** An old process and a newer one start a definition of these two users under two names. The newer name is left. */
async function beginTwice(t: Test, rig: Rig, sql: string, [one, other]: readonly [string, string]): Promise<void> {
  const halted = createHalted();
  const old = process(rig, { audiences: [audience('old_name', sql)] }, halted.open);
  await old.sync.configured();
  const begun = codes(old.sync);
  await halted.computing;
  const next = process(rig, { audiences: [audience('new_name', sql)] });
  t.same(await next.sync.orphans(), [], 'nobody has heard of the old name yet');
  await next.sync.configured();
  rig.onProgress = ({ key, phase }) => {
    if (key === 'new_name' && phase === 'stage') halted.goOn();
  };
  t.same([await codes(next.sync), await begun], [['done'], ['done']]);
  t.same(await lastTold(rig), {
    ...{ [`old_name ${one}`]: false, [`old_name ${other}`]: false },
    ...{ [`new_name ${one}`]: true, [`new_name ${other}`]: true },
  });
  t.same(await codes(old.sync), ['older_configuration']);
  t.same(await next.sync.orphans(), []);
}

t.test('ends a definition that two processes start under two names under the newer one', async (t) => {
  await beginTwice(t, await createRig(t), OLD, ['ann', 'bob']);
});

t.test('does so if the old name had ended before, with another definition', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('old_name', OLD)];
  rig.config.destinations = [destination('crm'), destination('mail')];
  await rig.sync.run();
  // It is remembered for `mail`, which doesn't get its end.
  rig.config.destinations = [destination('crm')];
  await rig.sync.retire('old_name');
  await rig.deliver();
  t.match(await rig.store.audience('old_name'), { lapsed: ['mail'], endedAt: Number });
  await beginTwice(t, rig, NEW, ['bob', 'cyd']);
});

t.test('starts no audience that a newer configuration is computing under another name', async (t) => {
  const rig = await createRig(t);
  const old = process(rig, { audiences: [audience('old_name', OLD)] });
  await old.sync.configured();
  const halted = createHalted();
  const next = process(rig, { audiences: [audience('new_name', OLD)] }, halted.open);
  await next.sync.configured();
  const begun = codes(next.sync);
  await halted.computing;
  t.same(await codes(old.sync), ['older_configuration']);
  t.same(await rig.store.runs({ key: 'old_name', limit: 1 }), []);
  halted.goOn();
  t.same(await begun, ['done']);
  t.same(await lastTold(rig), { 'new_name ann': true, 'new_name bob': true });
});

t.test('makes a process the newest again with its reloaded configuration', async (t) => {
  const rig = await createRig(t);
  const config = { ...rig.config, audiences: [audience('big', OLD)] };
  const sync = rig.another({ config: () => config });
  await sync.configured();
  const next = process(rig, { audiences: [audience('big', NEW)] });
  await next.sync.run();
  t.same(await codes(sync), ['older_configuration']);
  await sync.configured();
  t.same(await codes(sync), ['done']);
  t.same(await codes(next.sync), ['older_configuration']);
  config.audiences = [audience('big', NEW, { schedule: '* * * * *' })];
  t.same(await codes(sync), ['done'], 'a changed configuration is taken at the next run at the latest');
});
