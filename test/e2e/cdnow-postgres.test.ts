import pg from 'pg';
import t from 'tap';
import { startFastPostgres } from '../helpers/postgres.ts';
import { readPurchases, TIME_LIMIT } from './cdnow.ts';
import { follow } from './follow.ts';

t.setTimeout(TIME_LIMIT);
const purchases = readPurchases(16);
const skip = purchases === null ? 'shared/data/CDNOW_master.txt is not here' : false;

t.test('18 months of real purchases, with Postgres', { skip, timeout: TIME_LIMIT }, async (t) => {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const url = await server.database();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query('create table orders (user_id text, day timestamp, amount numeric(9, 2))');
  await client.query(
    `insert into orders select user_id, to_timestamp(day / 1000) at time zone 'utc', cents / 100.0
     from unnest($1::text[], $2::bigint[], $3::bigint[]) as rows(user_id, day, cents)`,
    [
      purchases?.map(({ customer }) => customer),
      purchases?.map(({ day }) => day),
      purchases?.map(({ cents }) => cents),
    ],
  );
  await client.end();
  await follow(t, t.testdir({}), purchases ?? [], { type: 'postgres', url });
});
