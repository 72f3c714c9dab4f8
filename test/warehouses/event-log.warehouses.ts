import t from 'tap';
import { loggedYear } from '../events/helpers/logged-year.ts';
import { installTrino, startTrino, TRINO_VERSION } from './trino.ts';

const skip = await installTrino();
if (skip) t.comment(skip);

/** A person is the user id, or that of the user who was first identified with an anonymous id. */
const OWNERS = `(select anonymous_id, min_by(user_id, row(timestamp, received_at, message_id)) as owner from events
  where type = 'identify' and anonymous_id is not null and user_id is not null group by anonymous_id)`;
const people = (columns: string, condition: string) =>
  `select coalesce(e.user_id, o.owner) as person, ${columns} from events as e
    left join ${OWNERS} as o on o.anonymous_id = e.anonymous_id where ${condition} and (e.user_id is not null or o.owner is not null)`;
const orders = (rest = '') => `e.event = 'Order Completed' and e.timestamp <= $now${rest}`;

const SQL = {
  regular: `select person as user_id from (${people('e.message_id', orders(` and e.timestamp > $now - interval '90' day`))})
    group by person having count(*) >= 2`,
  lapsed: `select person as user_id from (${people('e.timestamp as at', orders())})
    group by person having max(at) <= $now - interval '60' day`,
  generous: `select distinct person as user_id from (${people('e.properties as properties', orders())})
    where cast(json_extract_scalar(properties, '$.total') as double) >= 30 and json_extract_scalar(properties, '$.currency') = 'USD'`,
  pro: `select person as user_id from (${people(
    `json_extract_scalar(e.traits, '$.plan') as plan, row(e.timestamp, e.received_at, e.message_id) as place`,
    `e.type = 'identify' and e.timestamp <= $now and json_extract(e.traits, '$.plan') is not null`,
  )}) group by person having max_by(plan, place) = 'pro'`,
};

t.test('Trino finds the same members as DuckDB in the files of the log, row by row', { skip }, async (t) => {
  const year = await loggedYear(t);
  const trino = await startTrino({
    memory: ['connector.name=memory'],
    log: [
      ...['connector.name=hive', 'hive.metastore=file', 'hive.metastore.catalog.dir=local:///metastore'],
      ...['fs.native-local.enabled=true', `local.location=${year.folder}`, 'hive.timestamp-precision=MICROSECONDS'],
    ],
  });
  t.teardown(() => trino.stop());
  t.comment(`Trino ${TRINO_VERSION} from Maven: four audiences on five dates over the files of the log`);
  await trino.run(`CREATE SCHEMA log.web WITH (location = 'local:///web')`);
  await trino.run(`CREATE TABLE log.web.events (${year.columns('varchar', 'timestamp(6)')}, source varchar, day varchar)
    WITH (external_location = 'local:///events', format = 'PARQUET', partitioned_by = ARRAY['source', 'day'])`);
  await trino.run("CALL log.system.sync_partition_metadata('web', 'events', 'FULL')");
  await year.compare({ engine: { type: 'trino', url: trino.url('log/web'), snapshots: 'lake' }, sql: SQL });
});
