import { mkdtempSync, openSync, rmSync, statSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import mysql from 'mysql2/promise';
import pg from 'pg';
import t, { type Test } from 'tap';
import { openDuckdb } from '../../../jobs/engines/duckdb/duckdb.ts';
import { copyOut } from '../../../jobs/engines/postgres/copy-out.ts';
import { openMysql } from '../../../jobs/readers/mysql.ts';
import type { Reader } from '../../../jobs/readers/port.ts';
import { openPostgresReader } from '../../../jobs/readers/postgres.ts';
import { openSqlite } from '../../../jobs/readers/sqlite.ts';
import { systemClock } from '../../../src/kernel/clock.ts';
import { request, settle } from '../../contract/engine.ts';
import { NO_MARIADB, startMariadb } from '../../helpers/mariadb.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';
import { smallDisk } from '../../helpers/small-disk.ts';
import { until } from '../../helpers/until.ts';
import { readAll } from './rows.ts';

const IDS = 'select id as user_id from people';

interface Fault {
  readonly name: string;
  readonly code: string;
  readonly sql?: string;
  /** Happens before the reading. */
  begin?(): unknown;
  /** Happens while it reads. */
  during?(): unknown;
  end?(): unknown;
}

interface Source {
  open(): Promise<Reader>;
  /** Half a million long ids. */
  readonly many: string;
  readonly faults: readonly Fault[];
}

const small = smallDisk();
t.teardown(() => small?.remove());

/** Every fault fails the run and leaves the snapshot, and nobody has left once it is over. */
async function loseNobody(t: Test, { open, many, faults }: Source): Promise<void> {
  const home = async (path: string, fault: Fault) => {
    const config = { type: 'duckdb', path, memoryLimit: '32MB', threads: 1 } as const;
    const engine = await openDuckdb(config, { folder: t.testdirName, clock: systemClock, reads: open });
    await settle(engine, { sql: IDS });
    await fault.begin?.();
    // Awaited later: it may fail before what happens in the meantime is over.
    const staging = t.rejects(
      engine.stage(request({ toVersion: 2, sql: fault.sql ?? IDS })),
      { code: fault.code },
      fault.name,
    );
    await fault.during?.();
    await staging;
    await fault.end?.();
    t.same(await engine.snapshot('club'), { version: 1, members: 3 }, fault.name);
    t.match(await engine.stage(request({ toVersion: 2, sql: IDS })), { exited: 0, members: 3 }, fault.name);
    await engine.close();
  };
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-faults-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  for (const [place, fault] of faults.entries()) await home(join(folder, `${place}.duckdb`), fault);
  const noRoom = { name: 'neither memory nor disk has room for the rows', code: 'engine_failed', sql: many };
  if (small) await home(join(small.folder, `${t.name.replaceAll(' ', '-')}.duckdb`), noRoom);
  else t.comment('this process may not mount a small disk');
}

t.test('Postgres', async (t) => {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const url = await server.database();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  t.teardown(() => client.end());
  await client.query(`CREATE TABLE people (id text); INSERT INTO people VALUES ('a'), ('b'), ('c');
    DROP ROLE IF EXISTS waits; CREATE ROLE waits LOGIN; ALTER ROLE waits SET lock_timeout = '100ms';
    GRANT SELECT ON people TO waits`);
  const slow = `${IDS}, generate_series(1, 100) where pg_sleep(0.1) is not null`;
  const reading = "FROM pg_stat_activity WHERE query LIKE 'COPY%pg_sleep%' AND state = 'active'";
  await loseNobody(t, {
    open: () => openPostgresReader({ url: url.replace('//rollcall@', '//waits@') }, {}),
    many: 'select md5(n::text) || md5((n + 1)::text) as user_id from generate_series(1, 500000) as numbers (n)',
    faults: [
      {
        name: 'a lock that nobody gives',
        code: 'engine_failed',
        begin: () => client.query('BEGIN; LOCK TABLE people'),
        end: () => client.query('ROLLBACK'),
      },
      {
        name: 'cancelled by somebody',
        code: 'engine_failed',
        sql: slow,
        during: () =>
          until(async () => (await client.query(`SELECT pg_cancel_backend(pid) ${reading}`)).rowCount === 1),
      },
    ],
  });

  await t.test('bytes that are no text fail the reading', async (t) => {
    await client.query("CREATE DATABASE any_bytes TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'");
    t.teardown(() => client.query('DROP DATABASE any_bytes'));
    const at = new URL(url);
    at.pathname = '/any_bytes';
    const reader = await openPostgresReader({ url: at.href }, {});
    const sql = String.raw`select E'caf\xe9' as user_id union all select E'caf\xe8'`;
    await t.rejects(readAll(reader, sql), { code: 'sql_failed', message: /invalid byte sequence/ });
    await reader.close();
  });
});

t.test('an answer of Postgres with fewer rows than the server counts is no end', async (t) => {
  for (const end of ['COPY 3', 'COPY', null]) {
    const client = {
      query(copy: Record<string, (message?: object) => void>) {
        copy['submit']?.({ query() {}, stream: { pause() {}, resume() {} } });
        for (const id of ['a', 'b']) copy['handleCopyData']?.({ chunk: Buffer.from(`${id}\n`) });
        if (end !== null) copy['handleCommandComplete']?.({ text: end });
        copy['handleReadyForQuery']?.();
      },
    };
    const reading = (async () => {
      for await (const _ of copyOut(client as never, 'COPY', () => {}));
    })();
    await t.rejects(reading, { code: 'source_incomplete' }, String(end));
  }
});

t.test('MariaDB', { skip: NO_MARIADB }, async (t) => {
  const server = await startMariadb(['--lock-wait-timeout=1']);
  t.teardown(() => server.stop());
  const { admin, reader: url } = await server.database();
  const client = await mysql.createConnection({ uri: admin, multipleStatements: true });
  t.teardown(() => client.end());
  await client.query("create table people (id varchar(20)); insert into people values ('a'), ('b'), ('c')");
  const running = async () => {
    // The query for its columns, which comes before it, is short.
    const [found] = await client.query<mysql.RowDataPacket[]>(
      "select id from information_schema.processlist where info like '%sleep(0.1)%' and user like 'reader%' and time_ms > 50",
    );
    return found[0]?.['id'] as number | undefined;
  };
  const slow = `${IDS}, seq_1_to_100 where sleep(0.1) = 0`;
  const kill = (what: string) => async () => {
    let id: number | undefined;
    await until(async () => {
      id = await running();
      return id !== undefined;
    });
    await client.query(`kill ${what} ${id}`);
  };
  await loseNobody(t, {
    open: () => openMysql({ type: 'mysql', url, options: {} }, { folder: process.cwd() }),
    many: 'select concat(md5(seq), md5(seq + 1)) as user_id from seq_1_to_500000',
    faults: [
      {
        name: 'a lock that nobody gives',
        code: 'engine_failed',
        begin: () => client.query('lock tables people write'),
        end: () => client.query('unlock tables'),
      },
      { name: 'cancelled by somebody', code: 'engine_failed', sql: slow, during: kill('query') },
      { name: 'the connection ends', code: 'engine_unreachable', sql: slow, during: kill('connection') },
    ],
  });
});

t.test('SQLite', async (t) => {
  const path = join(t.testdir({}), 'shop.db');
  const db = new DatabaseSync(path);
  t.teardown(() => db.close());
  db.exec(
    "create table people (id text); insert into people values ('a'), ('b'), ('c'); create table damaged (id text)",
  );
  db.exec(
    'with recursive n (i) as (select 1 union all select i + 1 from n where i < 5000) insert into damaged select hex(randomblob(32)) from n',
  );
  const file = openSync(path, 'r+');
  writeSync(file, Buffer.alloc(4096 * 3, 0xff), 0, 4096 * 3, Math.floor(statSync(path).size / 8192) * 4096);
  await loseNobody(t, {
    open: async () => openSqlite({ type: 'sqlite', path }),
    many: 'with recursive n (i) as (select 1 union all select i + 1 from n where i < 500000) select hex(randomblob(32)) as user_id from n',
    faults: [
      {
        name: 'a lock that nobody gives',
        code: 'engine_failed',
        begin: () => db.exec('begin exclusive'),
        end: () => db.exec('rollback'),
      },
      { name: 'a damaged page', code: 'source_incomplete', sql: 'select id as user_id from damaged' },
    ],
  });
});
