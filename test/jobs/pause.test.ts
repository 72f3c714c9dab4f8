import t from 'tap';
import { until } from '../helpers/until.ts';
import { audience, createRig } from './helpers/rig.ts';

const HOUR = 3_600_000;

t.test('skips and logs an audience that a person paused until it is resumed', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [
    audience('asleep', "select 'u' as user_id", { schedule: '0 * * * *', timezone: 'UTC' }),
    audience('awake', "select 'u' as user_id"),
  ];
  const said: string[] = [];
  const whispered: string[] = [];
  const log = {
    debug: (_fields: object, text: string) => void whispered.push(text),
    info: (_fields: object, text: string) => void said.push(text),
    warn() {},
    error() {},
  };
  const sync = rig.another({ log });
  await sync.run();
  await rig.store.pauseAudience({ key: 'asleep', at: rig.time(), by: 'cli:ann' });
  t.same(
    (await sync.run()).map(({ key }) => key),
    ['awake'],
  );
  t.same(await sync.run(['asleep']), []);
  const word = /^asleep is not synced: cli:ann paused it at 2026-03-01T12:00:00\.000Z$/;
  t.equal(said.filter((text) => word.test(text)).length, 2);
  rig.setTime(new Date(rig.time() + 3 * HOUR).toISOString());
  await sync.start();
  t.teardown(() => sync.stop());
  await until(() => said.filter((text) => word.test(text)).length > 2);
  // A start catches up missed ticks, as a tick would.
  await sync.start();
  await until(() => whispered.some((text) => word.test(text)));
  t.equal(said.filter((text) => word.test(text)).length, 3, 'ticks say it once');
  t.match(await sync.audiences(), [
    { key: 'asleep', state: 'paused', nextRunAt: null, overdueSince: null, paused: { by: 'cli:ann' } },
    { key: 'awake', state: 'ok', paused: null },
  ]);
  t.match(await sync.plan(['asleep']), [{ key: 'asleep', members: 1, paused: { by: 'cli:ann' } }]);
  await rig.store.resumeAudience('asleep');
  t.match(await sync.run(['asleep']), [{ runs: [{ state: 'done' }] }]);
});

t.test("plans an audience paused in the configuration if named, but doesn't sync it", async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [{ ...audience('asleep', "select 'u' as user_id"), paused: true }];
  t.match(await rig.sync.plan(['asleep']), [{ key: 'asleep', members: 1, paused: null }]);
  t.same(await rig.sync.plan(), []);
  t.same(await rig.sync.run(['asleep']), []);
});

t.test('reports a due run as overdue unless it is under way', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('hourly', "select 'u' as user_id", { schedule: '0 * * * *', timezone: 'UTC' })];
  const overdue = async () => (await rig.sync.audiences())[0]?.overdueSince ?? null;
  t.equal(await overdue(), null, 'before the first run there is nothing to go by');
  Object.assign(rig.config, { changedAt: rig.time() - 2 * HOUR });
  t.ok(await overdue(), 'but the time at which it was configured');
  await rig.sync.run();
  const first = rig.time();
  rig.setTime(new Date(first + HOUR + 60_000).toISOString());
  t.equal(await overdue(), null, 'it may be on its way');
  rig.setTime(new Date(first + HOUR + 120_000).toISOString());
  t.equal(await overdue(), first + HOUR);
  const [run] = await rig.store.runs({ key: 'hourly', limit: 1 });
  const fence = await rig.store.takeLease('sync:hourly', 60_000);
  if (!run || !fence) throw new Error('there is a run, and nobody has the lease');
  await rig.store.saveRun({ ...run, state: 'sending' }, fence);
  t.equal(await overdue(), null, 'a run that goes on may be longer than an hour');
  rig.setTime(new Date(first + 2 * HOUR + 120_000).toISOString());
  t.equal(await overdue(), first + HOUR, 'but not for ever');
});
