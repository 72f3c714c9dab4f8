import { pino } from 'pino';
import { readNews } from '../../../jobs/live/new-events.ts';
import { App } from '../../../src/app.ts';
import { parseConfig } from '../../../src/config/load.ts';
import type { Condition } from '../../../src/definition/conditions.ts';
import type { TraitValue } from '../../../src/definition/definition.ts';
import { systemClock } from '../../../src/kernel/clock.ts';
import { armFailpoint } from '../../../src/kernel/failpoint.ts';
import { migratePostgres } from '../../../src/store/postgres/migrate.ts';
import { type Commit, SCORE } from '../../definitions/helpers/arbitrary.ts';
import { type Answer, type Asked, definitionsOf, type Orders } from './random-terms.ts';
import { openSql } from './sql.ts';

/** One life of a service with random live definitions, until a failpoint or its parent ends it. */
const {
  folder,
  url,
  generation,
  seed,
  origin,
  now: startedAt,
  keep,
  crash,
} = JSON.parse(process.argv[2] ?? '{}') as Orders;
if (crash) armFailpoint(crash.failpoint, crash.passes);
const answer = (said: Answer) => void process.send?.(said);

const { whens, values, short } = definitionsOf(seed, generation);
const conditions = new Map<string, Condition>(whens.map((when, index) => [`a${index}`, when]));
for (const key of ['listed', 'short']) conditions.set(key, short);
const traits = new Map<string, TraitValue>(values.map((value, index) => [`t${index}`, value]));
const isOnPostgres = url.startsWith('postgres');
const common = { source: 'personas', live: true };
const SCORES = `SELECT user_id, CAST(count(*) AS double precision) AS score, max(type) AS level
  FROM ${isOnPostgres ? 'rollcall_events.' : 'rollcall_'}events WHERE user_id IS NOT NULL AND "timestamp" <= $now GROUP BY user_id`;
const parsed = parseConfig(
  JSON.stringify({
    store: url,
    listen: { port: 0 },
    sources: ['shop', 'personas'].map((id) => ({ id, writeKey: id })),
    eventLog: { path: './events', keep: `${keep}d` },
    engines: { lake: isOnPostgres ? { type: 'postgres', url } : { type: 'duckdb', path: './audiences.duckdb' } },
    audiences: [...conditions.keys()].map((key) => ({ ...common, name: key, key, when: { performed: 'x' } })),
    traits: [
      ...[...traits.keys()].map((key) => ({ ...common, name: key, key, value: { count: 'x' } })),
      { name: 'Score', key: SCORE.key, source: 'personas', sql: SCORES },
    ],
  }),
  { file: 'rollcall.yaml', folder, env: {} },
);
// Random parts have the form that a configuration is read into.
const config = {
  ...parsed,
  audiences: parsed.audiences.map((audience) => ({ ...audience, when: conditions.get(audience.key) ?? null })),
  traits: parsed.traits.map((trait) => ({ ...trait, value: traits.get(trait.key) ?? null })),
} as typeof parsed;

if (isOnPostgres) await migratePostgres(url);
let now = startedAt;
const clock = {
  ...systemClock,
  now: () => now,
  monotonic: () => systemClock.monotonic() + now - startedAt,
  // So that no step is found: this goes on from one life to the next.
  uptime: () => systemClock.uptime() + now - origin,
};
const app = await App.create(config, { clock, log: pino({ level: 'error' }, pino.destination(2)) });
await app.start({ collect: true, schedules: true });
const sql = await openSql(app.store, config);

/** What its last sync committed, by user. */
async function committed(): Promise<Commit> {
  const found: [string, Commit[string]][] = [];
  await app.sync.members(SCORE.key, async ({ userIds, values }) => {
    for (const [row, user] of userIds.entries()) found.push([user, JSON.parse(values[row] ?? '{}')]);
  });
  return Object.fromEntries(found);
}

/** All that is in the log is computed, and all that is due. */
async function settled(): Promise<void> {
  const { store } = app;
  for (; ; await new Promise((resolve) => setTimeout(resolve, 20))) {
    const known = await store.live.currentState('personas');
    // A deletion may have asked for a rebuild, until which the former state serves.
    if (known === null || known.isBuilding || known.isStale || known.isUnseen) continue;
    const news = await readNews(store.events, known.position, now);
    if (news === null || news.events.length > 0) continue;
    if ((await store.live.personsDue(known.state, now, 1)).persons.length > 0) continue;
    if ((await store.live.idsOlderThan(known.state, await store.events.firstDay(), 1)).length > 0) continue;
    const statuses = await app.sync.audiences();
    if (statuses.some(({ live }) => live !== null && live.lag !== 0)) continue;
    const audiences = await store.live.audiences();
    if (audiences.length === conditions.size + traits.size && audiences.every(({ definition }) => definition !== ''))
      return;
  }
}

async function compare(): Promise<Answer> {
  const before = await app.store.events.firstDay();
  await settled();
  const differences: string[] = [];
  const keys = [...conditions.keys(), ...traits.keys()];
  let found = 0;
  await sql.read();
  await sql.commit(SCORE.key, await committed());
  for (const key of keys) {
    const when = conditions.get(key);
    const value = traits.get(key);
    const other = () => ({ when: short });
    const expected = when
      ? await sql.answer('audience', { when }, other, now)
      : value && (await sql.answer('trait', { value }, other, now));
    const live = await membersOf(key);
    const [mine, law] = [live, expected ?? {}].map((of) => JSON.stringify(Object.entries(of).toSorted(byKey)));
    found += Object.keys(expected ?? {}).length;
    if (mine !== law)
      differences.push(`${key} of generation ${generation} at ${now}: ${firstOf(live, expected ?? {})}`);
  }
  // Days were forgotten in between.
  if ((await app.store.events.firstDay()) !== before) return compare();
  return { compared: (await sql.users()) * keys.length, found, differences };
}

const byKey = ([a]: [string, unknown], [b]: [string, unknown]) => (a < b ? -1 : 1);

function firstOf(live: Readonly<Record<string, unknown>>, law: Readonly<Record<string, unknown>>): string {
  const users = Object.keys({ ...live, ...law });
  const wrong = users.filter((user) => JSON.stringify(live[user]) !== JSON.stringify(law[user]));
  const [user = ''] = wrong;
  return `${wrong.length} differ, such as ${user}: live ${JSON.stringify(live[user])}, SQL ${JSON.stringify(law[user])}`;
}

/** As it is computed; of an audience null. */
async function membersOf(key: string): Promise<Readonly<Record<string, unknown>>> {
  const page = await app.store.live.memberPage(key, 'all', '', 1_000_000);
  return Object.fromEntries(
    page.flatMap(({ user, current }) =>
      current === null ? [] : [[user, conditions.has(key) ? null : JSON.parse(current)] as const],
    ),
  );
}

process.on('message', async (asked: Asked) => {
  if ('now' in asked) now = asked.now;
  if ('arm' in asked) armFailpoint(asked.arm.failpoint, asked.arm.passes);
  if ('settle' in asked) await settled();
  if ('sync' in asked) {
    const [report] = await app.sync.run([SCORE.key], { now });
    if (report?.error) throw report.error;
  }
  if ('delete' in asked) {
    const id = await app.regulations.file({ type: 'DELETE_ONLY', sources: null, userIds: [asked.delete] });
    while ((await app.regulations.find(id))?.status !== 'FINISHED')
      await new Promise((resolve) => setTimeout(resolve, 20));
  }
  answer('compare' in asked ? await compare() : { done: true });
});
// Without the test that started it, it has nothing to live for.
process.on('disconnect', () => process.exit());
answer({ listening: app.address ?? '' });
