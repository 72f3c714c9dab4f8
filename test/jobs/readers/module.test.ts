import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { openReader } from '../../../jobs/readers/open.ts';
import { readerContract, SQLITE_SPELLING } from '../../contract/reader.ts';
import { audience, createRig, duckdbAt } from '../helpers/rig.ts';
import { neverReadsLess } from './cuts.ts';
import { startLibsql } from './libsql-stand-in.ts';
import { readAll } from './rows.ts';

const docs = readFileSync(new URL('../../../docs/databases.md', import.meta.url), 'utf8');
const [, text = ''] = /```js\n\/\/ my-reader.js\n(.*?)```/s.exec(docs) ?? [];
const folder = mkdtempSync(join(t.testdir({}), 'module-'));
const module = join(folder, 'my-reader.mjs');
// The package's own name leads to what is built.
writeFileSync(
  module,
  text.replace("'rollcall/reader'", JSON.stringify(new URL('../../../jobs/readers/index.ts', import.meta.url).href)),
);
const db = new DatabaseSync(join(folder, 'shop.db'));
db.exec("create table p (id text); insert into p values ('u')");
db.close();
const token = 'may-only-read';
const libsql = await startLibsql(t, join(folder, 'shop.db'), token);
const configAt = (url: string) =>
  ({ type: 'module', module, options: { url, token }, concurrency: 1, snapshots: 'home' }) as const;
const config = configAt(libsql.url);

t.test('the reader of the documentation passes the contract', async (t) => {
  // The server's own statement can't be interrupted while there is no row.
  const endless = 'with recursive n (i) as (select 1 union all select i + 1 from n) select i as user_id from n';
  readerContract(t, { open: () => openReader(config, { folder }), spelling: { ...SQLITE_SPELLING, endless } });
});

t.test('the reader of the documentation never reads less', async (t) => {
  const open = (port: number) => openReader(configAt(`http://127.0.0.1:${port}`), { folder });
  await neverReadsLess(t, libsql.port, open, `select n as user_id from (${SQLITE_SPELLING.series?.(20_000)})`);
  const reader = await openReader(config, { folder });
  for (const type of ['step_end', 'step_begin']) {
    libsql.endBefore = type;
    await t.rejects(readAll(reader, 'select id from p'), { code: 'source_incomplete' }, type);
  }
  libsql.endBefore = null;
  t.same(await readAll(reader, 'select id from p'), [['u']]);
  t.match(await reader.examine(), [{ state: 'ok', message: /^SQLite 3/ }]);
  await reader.close();
});

t.test('syncs an audience that a module reads, and names what is wrong with one', async (t) => {
  const rig = await createRig(t);
  rig.config.engines = { home: duckdbAt(join(rig.config.folder, 'home.duckdb')), shop: config };
  rig.config.folder = folder;
  rig.config.audiences = [audience('club', 'select id as user_id from p', { engine: 'shop' })];
  t.match(await rig.sync.run(), [{ error: null, runs: [{ state: 'done', members: 1, sent: 1 }] }]);
  rig.config.audiences = [audience('club', 'select idd as user_id from p', { engine: 'shop' })];
  t.match(
    await rig.sync.run(),
    [{ error: { code: 'sql_failed', message: /no such column/ } }],
    'by the code, not the class',
  );
  const none = join(folder, 'none.mjs');
  writeFileSync(none, 'export const openReader = () => ({ query() {} })');
  await t.rejects(openReader({ ...config, module: none }, { folder }), {
    code: 'engine_unreachable',
    message: /has no examine, close/,
  });
});
