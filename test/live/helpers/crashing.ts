import { setTimeout } from 'node:timers/promises';
import { pino } from 'pino';
import { liveComputations } from '../../../jobs/live/definitions.ts';
import { App } from '../../../src/app.ts';
import { parseConfig } from '../../../src/config/load.ts';
import { systemClock } from '../../../src/kernel/clock.ts';
import { armFailpoint, failpointPasses } from '../../../src/kernel/failpoint.ts';
import { migratePostgres } from '../../../src/store/postgres/migrate.ts';
import { AUDIENCES, EDITED, KEYS, type Orders, REBUILT, type Said, TRAITS } from './crash-terms.ts';
import { caughtUp, delivered, membersOf } from './service.ts';

/** One life of a service with live audiences, and the same ones by SQL, until its failpoint or its parent ends it. */
const { folder, url, life, edition, ahead, receiver, crash } = JSON.parse(process.argv[2] ?? '{}') as Orders;
if (crash?.from === 'start') armFailpoint(crash.failpoint, crash.passes);
const say = (said: Said) => process.send?.(said);

const common = { source: 'personas', guard: { allowEmpty: true } };
const both = (given: Readonly<Record<string, object>>, field: string) =>
  Object.entries(given).flatMap(([key, said]) => [
    { name: key, key, live: true, ...common, [field]: said },
    { name: `${key} by SQL`, key: `${key}_by_sql`, ...common, [field]: said },
  ]);
const isOnPostgres = url.startsWith('postgres');
const config = {
  store: url,
  listen: { port: 0 },
  network: { allow: ['127.0.0.0/8'] },
  sources: ['shop', 'personas'].map((id) => ({ id, writeKey: id })),
  eventLog: { path: './events' },
  engines: { lake: isOnPostgres ? { type: 'postgres', url } : { type: 'duckdb', path: './audiences.duckdb' } },
  destinations: [{ name: 'crm', sources: ['personas'], webhookUrl: receiver, audiences: KEYS }],
  audiences: both(
    {
      ...AUDIENCES,
      [EDITED]: { performed: 'Order', atLeast: 1 + (life % 3) },
      [REBUILT]: { performed: 'Order', where: { 'properties.total': { gte: edition } } },
    },
    'when',
  ),
  traits: both(TRAITS, 'value'),
};
if (isOnPostgres) await migratePostgres(url);
const LOOK_EVERY = 50;
let stopped: { readonly now: number; readonly uptime: number } | null = null;
const clock = {
  ...systemClock,
  now: () => stopped?.now ?? systemClock.now() + ahead,
  // Stands still with it, so that the store finds no step.
  uptime: () => stopped?.uptime ?? systemClock.uptime(),
};
const parsed = parseConfig(JSON.stringify(config), { file: 'rollcall.yaml', folder, env: {} });
const app = await App.create(parsed, { clock, log: pino({ level: 'error' }, pino.destination(2)) });
await app.start({ collect: true, schedules: true });
say({ listening: app.address ?? '' });
const wanted = new Map(liveComputations(parsed, 'personas').map(({ computation, hash }) => [computation.key, hash]));
const isTold = async () => {
  const known = await app.store.live.audiences();
  const ready = known.filter(({ key, definition, hold }) => definition === wanted.get(key) && hold === null);
  return ready.length === wanted.size;
};
if (crash) {
  while (!(await isTold())) await setTimeout(LOOK_EVERY);
  say({ told: failpointPasses() });
  if (crash.from === 'told') armFailpoint(crash.failpoint, crash.passes);
}

/** Whether time alone changes something that is not computed yet. */
async function isDue(now: number): Promise<boolean> {
  const known = await app.store.live.currentState('personas');
  return known === null || (await app.store.live.personsDue(known.state, now, 1)).persons.length > 0;
}

/** Time stands still from now on; resolves once all is computed that has come by now. */
async function standStill(): Promise<number> {
  const now = clock.now();
  stopped = { now, uptime: clock.uptime() };
  do await caughtUp(app);
  while (await isDue(now));
  return now;
}

/** Deliveries that were in flight when two lives in a row ended wait until a process has lived for a while. */
async function allDelivered(): Promise<void> {
  do {
    stopped = null;
    await delivered(app);
    await standStill();
  } while ((await app.store.backlog()).some(({ pending }) => pending > 0));
}

/** Live membership is compared with what the SQL says of the same moment, and told as it is once all is delivered. */
process.on('message', async () => {
  const now = await standStill();
  const differences: string[] = [];
  for (const key of KEYS) {
    const [report] = await app.sync.run([`${key}_by_sql`], { now });
    if (report?.error) throw report.error;
    const [mine, law] = [await membersOf(app, key), await membersOf(app, `${key}_by_sql`)].map((members) =>
      JSON.stringify([...members]),
    );
    if (mine !== law) differences.push(`${key}: live says ${mine}, the SQL ${law}`);
  }
  await allDelivered();
  const members: Record<string, Record<string, unknown>> = {};
  for (const key of KEYS) members[key] = Object.fromEntries(await membersOf(app, key));
  await app.close();
  process.send?.({ differences, members } satisfies Said, () => process.exit(0));
});
