import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import mysql from 'mysql2/promise';
import pg from 'pg';
import t, { type Test } from 'tap';
import type { EngineConfig } from '../../../src/config/config.ts';
import { DEFINITIONS, dates, type Purchase, readPurchases, TIME_LIMIT } from '../../e2e/cdnow.ts';
import { NO_MARIADB, startMariadb } from '../../helpers/mariadb.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';
import { audience, createRig, duckdbAt, trait } from '../helpers/rig.ts';

t.setTimeout(TIME_LIMIT);
const purchases = readPurchases(32);
const skip = purchases === null ? 'shared/data/CDNOW_master.txt is not here' : false;
const rows = (purchases ?? []).map(({ customer, day, cents }: Purchase) => [customer, textOf(day), cents / 100]);

function textOf(day: number): string {
  return new Date(day).toISOString().slice(0, 19).replace('T', ' ');
}

/** The bodies of all webhooks of each of the 24 dates, without message ids, which begin with a run's random id. */
async function bodies(t: Test, shop: EngineConfig, spelled = (sql: string) => sql): Promise<readonly string[][]> {
  const rig = await createRig(t);
  rig.config.engines = { home: duckdbAt(join(rig.config.folder, 'home.duckdb')), shop };
  const engine = 'shop';
  rig.config.audiences = Object.entries(DEFINITIONS.audiences).map(([key, sql]) =>
    audience(key, spelled(sql), { engine }),
  );
  rig.config.traits = Object.entries(DEFINITIONS.traits).map(([key, sql]) => trait(key, spelled(sql), { engine }));
  const found: string[][] = [];
  for (const now of dates()) {
    rig.setTime(new Date(now).toISOString());
    for (const { error } of await rig.sync.run()) if (error) throw error;
    const sent: string[] = [];
    await rig.deliver(({ body }) => {
      sent.push(body.replace(/"messageId":"[^"]+"/, ''));
      return { kind: 'delivered' };
    });
    found.push(sent.toSorted());
  }
  return found;
}

t.test('real purchases make the same webhooks through readers, byte for byte', { skip }, async (t) => {
  const folder = t.testdir({});
  let expected: readonly string[][] = [];
  const isSame = (found: readonly string[][]) => {
    t.equal(found.flat().length, expected.flat().length);
    for (const [index, sent] of found.entries()) {
      const place = sent.findIndex((body, n) => body !== expected[index]?.[n]);
      if (place >= 0) t.equal(sent[place], expected[index]?.[place], `date ${index}`);
    }
    t.equal(hashOf(found), hashOf(expected));
  };

  await t.test('DuckDB', async (t) => {
    const path = join(folder, 'shop.duckdb');
    const csv = join(folder, 'orders.csv');
    writeFileSync(csv, rows.map((row) => row.join(',')).join('\n'));
    const instance = await DuckDBInstance.create(path);
    const connection = await instance.connect();
    await connection.run(
      `create table orders as from read_csv('${csv}', header = false, columns = {user_id: 'varchar', day: 'timestamp', amount: 'decimal(9, 2)'})`,
    );
    connection.closeSync();
    instance.closeSync();
    expected = await bodies(t, duckdbAt(path));
    t.ok(expected.flat().length > 2_000);
  });

  await t.test('Postgres, as a role that may only select', async (t) => {
    const server = await startFastPostgres();
    t.teardown(() => server.stop());
    const url = await server.database();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query(`REVOKE CREATE, TEMPORARY ON DATABASE ${client.database} FROM PUBLIC;
      DROP ROLE IF EXISTS selects; CREATE ROLE selects LOGIN;
      CREATE TABLE orders (user_id text, day timestamp, amount numeric(9, 2)); GRANT SELECT ON orders TO selects`);
    await client.query('INSERT INTO orders SELECT * FROM unnest($1::text[], $2::timestamp[], $3::numeric[])', [
      ...[0, 1, 2].map((place) => rows.map((row) => row[place])),
    ]);
    await client.end();
    const reader = url.replace('//rollcall@', '//selects@');
    isSame(await bodies(t, { type: 'postgres', url: reader, concurrency: 2, snapshots: 'home' }));
  });

  await t.test('MariaDB, as a user who may only select', { skip: NO_MARIADB }, async (t) => {
    const server = await startMariadb();
    t.teardown(() => server.stop());
    const { admin, reader } = await server.database();
    const client = await mysql.createConnection(admin);
    await client.query('create table orders (user_id varchar(20), day datetime, amount decimal(9, 2))');
    await client.query('insert into orders values ?', [rows]);
    await client.end();
    const spelled = (sql: string) => sql.replaceAll(/interval '(\d+) days'/g, 'interval $1 day');
    isSame(await bodies(t, { type: 'mysql', url: reader, options: {}, concurrency: 2, snapshots: 'home' }, spelled));
  });
});

const hashOf = (found: readonly string[][]) => createHash('sha256').update(JSON.stringify(found)).digest('hex');
