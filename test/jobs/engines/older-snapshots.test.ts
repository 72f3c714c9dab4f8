import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import pg from 'pg';
import t, { type Test } from 'tap';
import { openDuckdb } from '../../../jobs/engines/duckdb/duckdb.ts';
import type { Engine } from '../../../jobs/engines/port.ts';
import { openPostgres } from '../../../jobs/engines/postgres/postgres.ts';
import { tablesOf } from '../../../jobs/engines/sql/tables.ts';
import { systemClock } from '../../../src/kernel/clock.ts';
import { request, settle, told } from '../../contract/engine.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';

/** A database, whose engine is closed while other statements run in it. */
interface Opened {
  engine(options?: { readonly readOnly: boolean }): Promise<Engine>;
  rows(statement: string): Promise<readonly object[]>;
}

function inDuckdb(t: Test): Opened {
  const folder = t.testdir({});
  const path = join(folder, 'audiences.duckdb');
  const config = { type: 'duckdb', path, memoryLimit: null, threads: 1 } as const;
  return {
    engine: (options) => openDuckdb(config, { folder, clock: systemClock, ...options }),
    async rows(statement) {
      const instance = await DuckDBInstance.create(path);
      const connection = await instance.connect();
      const rows = await (await connection.run(statement)).getRowObjectsJS();
      connection.closeSync();
      instance.closeSync();
      return rows;
    },
  };
}

async function inPostgres(t: Test): Promise<Opened> {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const url = await server.database();
  return {
    engine: (options) => openPostgres({ type: 'postgres', url }, options),
    async rows(statement) {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      const { rows } = await client.query(statement);
      await client.end();
      return rows;
    },
  };
}

const kinds = [
  ['an audience', 'n', { with: { names: ['n'], areSent: true } }],
  ['a trait', 'club', { kind: 'trait' }],
] as const;
const rowsOf = (users: Readonly<Record<string, number>>) =>
  Object.entries(users)
    .map(([id, n]) => `select '${id}' as user_id, ${n} as n`)
    .join(' union all ');

for (const [database, open] of Object.entries({ DuckDB: inDuckdb, Postgres: inPostgres })) {
  for (const [kind, column, definition] of kinds) {
    t.test(`sends nothing over a snapshot of ${kind} from before values had hashes, in ${database}`, async (t) => {
      const { engine, rows } = await open(t);
      const using = async <T>(work: (engine: Engine) => Promise<T>, options?: { readonly readOnly: boolean }) => {
        const opened = await engine(options);
        try {
          return await work(opened);
        } finally {
          await opened.close();
        }
      };
      const { members, plan: planTable } = tablesOf({});
      const [first, second] = [rowsOf({ a: 1, b: 2, c: 3 }), rowsOf({ a: 9, b: 2, c: 3, d: 4 })];
      const ask = (toVersion: number, sql: string) => request({ ...definition, toVersion, sql });
      const { plan } = await using(async (opened) => {
        await settle(opened, { ...definition, sql: first });
        return opened.stage(ask(2, second));
      });

      await rows(`ALTER TABLE ${members('club')} DROP COLUMN hash`);
      for (const dropped of ['hash', 'known', 'since'])
        await rows(`ALTER TABLE ${planTable(plan)} DROP COLUMN ${dropped}`);
      await using(async (opened) => {
        await opened.commit(plan);
        await opened.discard(plan);
      });
      const readOnly = { readOnly: true };
      t.match(await using((opened) => opened.preview(ask(3, second), 10), readOnly), {
        total: 0,
        sample: { userIds: [] },
      });
      await using(async (opened) => {
        const staged = await opened.stage(ask(3, second));
        t.match(staged, { total: 0, changed: 0, members: 4 });
        t.same((await opened.changes(staged.plan, 0, 10)).userIds, []);
        await opened.commit(staged.plan);
        t.same(
          [...(await opened.lookup('club', ['a', 'b', 'd']))].map(([user, { since }]) => [user, since]).toSorted(),
          [
            ['a', 2],
            ['b', 1],
            ['d', 2],
          ],
        );
        t.same(await opened.history('club', 'b'), []);
        t.match(await opened.history('club', 'a'), [{ value: /1/, since: 1, until: 2 }]);
      });
      t.match(await rows(`SELECT CAST(count(hash) AS integer) AS hashes FROM ${members('club')}`), [{ hashes: 4 }]);
      const changed = await using(async (opened) => {
        const staged = await opened.stage(ask(4, rowsOf({ a: 9, b: 5, c: 3 })));
        return told(await opened.changes(staged.plan, 0, 10));
      });
      t.match(changed, [['b', { [column]: 5 }], ['d']]);
    });
  }

  t.test(`knows who was a member before values had hashes, in ${database}`, async (t) => {
    const { engine, rows } = await open(t);
    const opened = await engine();
    await settle(opened, { sql: rowsOf({ a: 1 }) });
    await settle(opened, { sql: rowsOf({ b: 1 }), toVersion: 2 });
    await opened.close();
    await rows(`ALTER TABLE ${tablesOf({}).members('club')} DROP COLUMN hash`);
    const again = await engine();
    const known = { version: 1, upTo: 1 };
    const { plan } = await again.stage(request({ action: 'backfill', toVersion: 2, sql: '', known }));
    t.same((await again.changes(plan, 0, 10)).userIds, ['a', 'b']);
    await again.close();
  });
}
