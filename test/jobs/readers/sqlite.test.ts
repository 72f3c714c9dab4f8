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

t.test('reads the rows of a definition and no others, as SQLite returns them', async (t) => {
  const { db, reader } = database(
    t,
    `create table p (id, amount real, raw blob, at);
     insert into p values ('a', 1, x'00ff', null), ('a', 1, x'00ff', null), (2, 9007199254740993, null, 1.0),
       ('b' || char(0), null, null, char(65279) || 'c'), (9007199254740993, 1e300, '', cast(x'ff' as text))`,
  );
  const definitions = [
    'select * from p',
    'select distinct id, amount from p order by id desc -- a comment',
    'select id from p union select id from p',
    'select id, count(*) as n from p group by id having n > 1',
    'select id from p order by id limit 2 offset 1',
    'select id, row_number() over (partition by id) from p',
    'with "p of all" as (select * from p) select id from "p of all" where id in (select id from p)',
    'select a.id, b.id from p as a left join p as b on a.id = b.at',
    "values ('a'), ('b')",
    'select 1 as user_id',
    'select id from p where 0',
    'select id from p where exists (select 1 from p as other where other.at = p.amount)',
    MANY,
    // Those can't be read in a part of a statement.
    'select id from p /* the end',
    'pragma table_info(p)',
    `select id, ${Array.from({ length: 1_100 }, (_, n) => `${n} as c${n}`).join(', ')} from p`,
  ];
  for (const sql of definitions) {
    const statement = db.prepare(sql);
    statement.setReturnArrays(true);
    statement.setReadBigInts(true);
    t.strictSame(await readAll(reader, sql), statement.all(), sql.slice(0, 60));
  }
  await t.rejects(readAll(reader, 'select id from p where rollcall_take(id)'), { code: 'sql_failed' });
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
