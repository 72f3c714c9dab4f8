import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t, { type Test } from 'tap';
import { openSqlite } from '../../../jobs/readers/sqlite.ts';
import { readerContract, SQLITE_SPELLING } from '../../contract/reader.ts';
import { readAll } from './rows.ts';

const MANY =
  'with recursive n (i) as (select 1 union all select i + 1 from n where i < 20000) select i as user_id from n';

function database(t: Test, sql = 'select 1') {
  const path = join(t.testdir({}), 'shop.db');
  const db = new DatabaseSync(path);
  db.exec(sql);
  const reader = openSqlite({ type: 'sqlite', path });
  t.teardown(() => reader.close());
  return { path, db, reader };
}

t.test('passes the contract', async (t) => {
  const { path, db } = database(t);
  db.close();
  readerContract(t, { open: async () => openSqlite({ type: 'sqlite', path }), spelling: SQLITE_SPELLING });
});

t.test('keeps every digit, and judges each value by its own type', async (t) => {
  const { reader } = database(
    t,
    "create table p (id, raw blob, ratio real); insert into p values (9007199254740993, x'00', 1.5)",
  );
  const { columns } = await reader.query({ sql: 'select * from p', now: 0 });
  t.same(
    columns.map(({ kind }) => kind),
    ['any', 'binary', 'double'],
  );
  t.same(await readAll(reader, 'select id from p'), [[9007199254740993n]]);
});

t.test('writes nothing, and shows the place of a mistake', async (t) => {
  const { reader } = database(t, 'create table p (id text)');
  await t.rejects(readAll(reader, "insert into p values ('a') returning id as user_id"), {
    code: 'sql_failed',
    message: /readonly/,
  });
  const message = await readAll(reader, "select '$now' as x,\n  idd from p").then(
    () => '',
    (error: Error) => error.message,
  );
  t.match(message, 'no such column: idd\n\nLINE 2:   idd from p\n          ^');
  await t.rejects(readAll(reader, 'select 1; select 2'), { code: 'sql_failed', message: /single statement/ });
  t.same(await readAll(reader, "select id from p where '2026-03-01 12:00:00.250' < $now -- $now ;", 5), []);
});

t.test('reads beside a writer in WAL mode, and fails where one keeps the file locked', async (t) => {
  const { db, reader } = database(t, "pragma journal_mode = wal; create table p (id text); insert into p values ('a')");
  db.exec("begin immediate; insert into p values ('b')");
  t.same(await readAll(reader, 'select id from p'), [['a']]);
  db.exec('commit');
  t.same(await readAll(reader, 'select id from p'), [['a'], ['b']]);
});

/** Root may write everywhere: the process that reads is then started as `nobody`. */
async function unprivileged<T>(work: () => Promise<T>): Promise<T> {
  if (process.getuid?.() !== 0) return work();
  process.seteuid?.(65534);
  try {
    return await work();
  } finally {
    process.seteuid?.(0);
  }
}

t.test('reads files that it may not write to, in any mode and folder, and no half of them', async (t) => {
  for (const mode of ['delete', 'wal']) {
    const folder = mkdtempSync(join(tmpdir(), 'rollcall-sqlite-'));
    t.teardown(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'shop.db');
    const db = new DatabaseSync(path);
    db.exec(`pragma journal_mode = ${mode}; create table p (id text); insert into p values ('a')`);
    db.close();
    chmodSync(path, 0o444);
    chmodSync(folder, 0o555);
    const read = async () => {
      const reader = openSqlite({ type: 'sqlite', path });
      return readAll(reader, 'select id from p').finally(() => reader.close());
    };
    t.same(await unprivileged(read), [['a']], mode);
    if (mode === 'delete') continue;
    // The last change may be in a file that can't be used.
    chmodSync(folder, 0o755);
    writeFileSync(`${path}-wal`, '');
    chmodSync(folder, 0o555);
    await t.rejects(unprivileged(read), { code: 'engine_unreachable' });
  }
});

t.test('a missing or damaged file, and a process that dies, fail the reading', async (t) => {
  const { path, db, reader } = database(t, 'create table p (id text)');
  db.close();
  const { batches } = await reader.query({ sql: MANY, now: 0 });
  await t.rejects(
    (async () => {
      for await (const _ of batches) await reader.close();
    })(),
  );
  t.equal((await readAll(reader, MANY)).length, 20_000, 'the next reading starts another');
  rmSync(path);
  await t.rejects(readAll(reader, MANY), {
    code: 'engine_unreachable',
    message: /unable to open/,
  });
});
