import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import t from 'tap';
import { readPurchases, TIME_LIMIT } from './cdnow.ts';
import { follow } from './follow.ts';

t.setTimeout(TIME_LIMIT);
const purchases = readPurchases(4);
const skip = purchases === null ? 'shared/data/CDNOW_master.txt is not here' : false;

t.test('18 months of real purchases, with DuckDB', { skip, timeout: TIME_LIMIT }, async (t) => {
  const folder = t.testdir({});
  const path = join(folder, 'audiences.duckdb');
  const csv = join(folder, 'orders.csv');
  const rows = (purchases ?? []).map(({ customer, day, cents }) => `${customer},${day},${cents / 100}`);
  writeFileSync(csv, `user_id,day,amount\n${rows.join('\n')}\n`);
  const instance = await DuckDBInstance.create(path);
  const connection = await instance.connect();
  await connection.run(
    `create table orders as select user_id, make_timestamp(day * 1000) as day, amount
     from read_csv('${csv}', columns = {user_id: 'varchar', day: 'bigint', amount: 'decimal(9, 2)'})`,
  );
  connection.closeSync();
  instance.closeSync();
  await follow(t, folder, purchases ?? [], { type: 'duckdb', path });
});
