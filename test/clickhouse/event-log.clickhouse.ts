import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import type { App } from '../../src/app.ts';
import { loggingService, send } from '../events/helpers/logging-app.ts';
import { startFront } from './front.ts';

const front = await startFront();
t.teardown(() => front.stop());
const DAY = 86_400_000;

/** As docs/engines.md gives it, with `file` in place of `s3`. */
const EVENTS = (path: string) =>
  `CREATE VIEW events AS SELECT * FROM file('${path}/source=*/day=*/*.parquet', Parquet)`;

/** A person is the user id, or that of the user who was first identified with an anonymous id. */
const OWNERS = `(select anonymous_id, argMin(user_id, (timestamp, received_at, message_id)) as owner from events
  where type = 'identify' and anonymous_id is not null and user_id is not null group by anonymous_id)`;
const people = (
  columns: string,
  condition: string,
) => `select coalesce(e.user_id, o.owner) as person, ${columns} from events as e
  left join ${OWNERS} as o on o.anonymous_id = e.anonymous_id where ${condition} and (e.user_id is not null or o.owner is not null)`;

const AUDIENCES = [
  {
    key: 'regular',
    when: { performed: 'Order Completed', atLeast: 2, within: '90 days' },
    sql: `select person as user_id from (${people('e.message_id', `e.event = 'Order Completed' and e.timestamp > $now - interval 90 day and e.timestamp <= $now`)})
      group by person having count() >= 2`,
  },
  {
    key: 'lapsed',
    when: { all: [{ performed: 'Order Completed' }, { not: { performed: 'Order Completed', within: '60d' } }] },
    sql: `select person as user_id from (${people('e.timestamp as at', `e.event = 'Order Completed' and e.timestamp <= $now`)})
      group by person having max(at) <= $now - interval 60 day`,
  },
  {
    key: 'generous',
    when: { performed: 'Order Completed', where: { 'properties.total': { gte: 30 }, 'properties.currency': 'USD' } },
    sql: `select distinct person as user_id from (${people(
      'e.properties as properties',
      `e.event = 'Order Completed' and e.timestamp <= $now`,
    )}) where JSONExtractFloat(properties, 'total') >= 30 and JSONExtractString(properties, 'currency') = 'USD'`,
  },
  {
    key: 'pro',
    when: { trait: 'plan', is: 'pro' },
    sql: `select person as user_id from (${people(
      "JSONExtractString(e.traits, 'plan') as plan, (e.timestamp, e.received_at, e.message_id) as place",
      `e.type = 'identify' and e.timestamp <= $now and JSONHas(e.traits, 'plan')`,
    )}) group by person having argMax(plan, place) = 'pro'`,
  },
];

t.test('finds the same members as DuckDB in the sealed files of the log, row by row', async (t) => {
  const service = loggingService(t);
  const url = await front.database();
  const engines = {
    lake: { type: 'duckdb', path: './audiences.duckdb' },
    house: { type: 'clickhouse', url, settings: { join_use_nulls: 1 } },
  };
  const common = { source: 'personas', guard: { allowEmpty: true } };
  const audiences = AUDIENCES.flatMap(({ key, when, sql }) => [
    { ...common, name: key, key, engine: 'lake', when },
    { ...common, name: `${key} by ClickHouse`, key: `${key}_house`, engine: 'house', sql },
  ]);
  // The client is installed beside the configuration.
  await symlink(join(import.meta.dirname, 'node_modules'), join(service.folder, 'node_modules'));
  const collector = await service.open();
  await collector.start({ collect: true, schedules: false });
  const now = service.clock.now();
  const events = Array.from({ length: 3_000 }, (_, n) => eventOf(n, now));
  for (let from = 0; from < events.length; from += 500) await send(collector, events.slice(from, from + 500));
  await collector.close();
  front.run(`USE ${new URL(url).pathname.slice(1)}; ${EVENTS(join(service.folder, 'events'))}`);
  t.equal(
    front.run(`SELECT count() FROM ${new URL(url).pathname.slice(1)}.events`).trim(),
    '3000',
    'all of it is sealed by a clean stop',
  );

  const app = await service.open([], { engines, audiences });
  for (const at of [now - 200 * DAY, now - 100 * DAY, now - 30 * DAY, now + 20 * DAY, now + 100 * DAY]) {
    for (const { key, error } of await app.sync.run([], { now: at }))
      if (error) throw new Error(`${key}: ${error.message}`);
    for (const { key } of AUDIENCES) {
      const [own, theirs] = [await membersOf(app, key), await membersOf(app, `${key}_house`)];
      t.strictSame(theirs, own, `${key} of ${new Date(at).toISOString().slice(0, 10)}: ${own.length} members`);
    }
  }
  t.ok((await membersOf(app, 'lapsed')).length > 50, 'there was somebody to find');
});

/** A year of orders and of identifies, some of which are the first to know an anonymous id. */
function eventOf(n: number, now: number): object {
  const person = (n * 7919) % 311;
  const timestamp = new Date(now - ((n * 104_729) % 365) * DAY - n * 1_000).toISOString();
  const ids = { messageId: `m${n}`, timestamp };
  if (n % 5 === 0) {
    const plan = ['pro', 'free', 'trial'][n % 3];
    return {
      ...ids,
      type: 'identify',
      userId: `u${person}`,
      anonymousId: `a${person % 97}`,
      traits: n % 4 === 0 ? { seen: n } : { plan },
    };
  }
  const who = n % 3 === 0 ? { anonymousId: `a${person % 97}` } : { userId: `u${person}` };
  const properties = { total: (n % 120) / 2, currency: n % 7 === 0 ? 'EUR' : 'USD' };
  return { ...ids, ...who, type: 'track', event: n % 2 === 0 ? 'Order Completed' : 'Viewed', properties };
}

async function membersOf(app: App, key: string): Promise<readonly string[]> {
  const found: string[] = [];
  await app.sync.members(key, async ({ userIds }) => void found.push(...userIds));
  return found.toSorted();
}
