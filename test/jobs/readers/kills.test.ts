import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { DuckDBInstance } from '@duckdb/node-api';
import pg from 'pg';
import t from 'tap';
import { startFastPostgres } from '../../helpers/postgres.ts';
import { launch } from '../../helpers/program.ts';

/** The places that snapshots move to, from Postgres: read-only, to another home, and back. */
const MOVES = ['home', 'other', null];

t.test('a kill in a move sends nothing again, loses no leaver and leaves nothing behind', async (t) => {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const url = await server.database();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  t.teardown(() => client.end());
  await client.query("CREATE TABLE people (id text); INSERT INTO people VALUES ('a'), ('b'), ('c')");
  const sent: string[] = [];
  const receiver = createServer(async (request, response) => {
    const { userId, traits } = JSON.parse(await text(request));
    sent.push(`${userId} ${traits.club}`);
    response.end();
  }).listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  t.teardown(() => receiver.close());
  const folder = t.testdir({});
  const file = join(folder, 'rollcall.yaml');
  const fileOf = (home: string) => join(folder, `${home}.duckdb`);

  async function run(command: readonly string[], home: string | null, fault = '') {
    const duckdb = (name: string) => [name, { type: 'duckdb', path: fileOf(name) }];
    const warehouse = { type: 'postgres', url, ...(home === null ? {} : { snapshots: home }) };
    const config = {
      store: `sqlite:${join(folder, 'rollcall.db')}`,
      network: { allow: ['127.0.0.0/8'] },
      sources: [{ id: 'personas', writeKey: 'personas-key' }],
      destinations: [
        {
          name: 'app',
          sources: ['personas'],
          sharedSecret: 'a secret of the test',
          webhooks: [{ url: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}` }],
        },
      ],
      engines: { ...Object.fromEntries(['home', 'other'].map(duckdb)), warehouse },
      audiences: [{ name: 'club', source: 'personas', engine: 'warehouse', sql: 'select id as user_id from people' }],
    };
    writeFileSync(file, JSON.stringify(config));
    const { ended } = launch([...command, '-c', file], fault);
    const { stderr, code, signal } = await ended;
    if (fault === '') t.equal(code, 0, stderr);
    else t.equal(signal, 'SIGKILL', `killed at ${fault}`);
    return sent.splice(0).toSorted();
  }

  /** Keys of the snapshots in a place. */
  async function snapshotsIn(home: string | null): Promise<readonly unknown[]> {
    const sql = 'SELECT key FROM rollcall.snapshots';
    if (home === null) return (await client.query({ text: sql, rowMode: 'array' })).rows.flat();
    const instance = await DuckDBInstance.create(fileOf(home));
    const connection = await instance.connect();
    const rows = await (await connection.run(sql)).getRowsJS();
    connection.closeSync();
    instance.closeSync();
    return rows.flat();
  }

  const sync = ['sync', '--once'];
  t.same(await run(sync, null), ['a true', 'b true', 'c true']);
  await client.query("DELETE FROM people WHERE id = 'a'");
  t.same(await run(sync, null), ['a false']);
  for (const point of ['move_written', 'move_removed']) {
    let from: string | null = null;
    for (const to of MOVES) {
      const way = `${from ?? 'Postgres'} to ${to ?? 'Postgres'}, ${point}`;
      t.same(await run(sync, to, `kill ${point} 1`), [], way);
      t.same(await run(sync, to), [], `${way}: the next run`);
      t.same(await snapshotsIn(to), ['club'], way);
      t.same(await snapshotsIn(from), [], `${way}: nothing is left behind`);
      from = to;
    }
  }
  t.same(await run(['resync', 'club'], null), ['a false', 'b true', 'c true']);
});
