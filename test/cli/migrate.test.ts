import { readFile, writeFile } from 'node:fs/promises';
import t from 'tap';
import { startFastPostgres } from '../helpers/postgres.ts';
import { listen, rollcall, workspace } from './helpers.ts';

t.test('refuses to start on Postgres until migrate has run', async (t) => {
  const postgres = await startFastPostgres();
  t.teardown(() => postgres.stop());
  const listener = await listen(t);
  const { config } = await workspace(t, listener.url, `store: ${await postgres.database()}\neventLog: {}\n`);
  t.match(await rollcall(['sync', '--once', '-c', config]), { code: 1, stderr: /store_outdated.*rollcall migrate/ });
  t.match(await rollcall(['migrate', '-c', config]), { code: 0, stdout: /Applied: 1/ });
  t.match(await rollcall(['migrate', '-c', config]), { code: 0, stdout: /up to date/ });
  t.match(await rollcall(['sync', '--once', '-c', config]), { code: 0, stdout: /2 delivered/ });
  t.match(await rollcall(['events', '--verify', '--json', '-c', config]), { code: 0, stderr: /no files to verify/ });
  t.match(await listener.stop(), { length: 2 });
});

t.test('migrates SQLite at any start', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  t.match(await rollcall(['migrate', '--json', '-c', config]), { code: 0, stdout: '{"applied":[]}\n' });
  const text = await readFile(config, 'utf8');
  await writeFile(config, text.replace(/^store: .*/, 'store: sqlite:./none/rollcall.db'));
  t.match(await rollcall(['migrate', '-c', config]), { code: 1, stderr: /store_failed/ });
});
