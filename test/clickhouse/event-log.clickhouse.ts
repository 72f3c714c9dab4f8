import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { loggedYear } from '../events/helpers/logged-year.ts';
import { startFront } from './front.ts';

const front = await startFront();
t.teardown(() => front.stop());

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

const SQL = {
  regular: `select person as user_id from (${people('e.message_id', `e.event = 'Order Completed' and e.timestamp > $now - interval 90 day and e.timestamp <= $now`)})
      group by person having count() >= 2`,
  lapsed: `select person as user_id from (${people('e.timestamp as at', `e.event = 'Order Completed' and e.timestamp <= $now`)})
      group by person having max(at) <= $now - interval 60 day`,
  generous: `select distinct person as user_id from (${people(
    'e.properties as properties',
    `e.event = 'Order Completed' and e.timestamp <= $now`,
  )}) where JSONExtractFloat(properties, 'total') >= 30 and JSONExtractString(properties, 'currency') = 'USD'`,
  pro: `select person as user_id from (${people(
    "JSONExtractString(e.traits, 'plan') as plan, (e.timestamp, e.received_at, e.message_id) as place",
    `e.type = 'identify' and e.timestamp <= $now and JSONHas(e.traits, 'plan')`,
  )}) group by person having argMax(plan, place) = 'pro'`,
};

t.test('finds the same members as DuckDB in the sealed files of the log, row by row', async (t) => {
  const year = await loggedYear(t);
  const url = await front.database();
  const database = new URL(url).pathname.slice(1);
  // The client is installed beside the configuration.
  await symlink(join(import.meta.dirname, 'node_modules'), join(year.folder, 'node_modules'));
  front.run(`USE ${database}; ${EVENTS(join(year.folder, 'events'))}`);
  t.equal(front.run(`SELECT count() FROM ${database}.events`).trim(), '3000', 'all of it is sealed by a clean stop');
  await year.compare({ engine: { type: 'clickhouse', url, settings: { join_use_nulls: 1 } }, sql: SQL });
});
