import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { rollcall } from './helpers.ts';

const MAIN = join(import.meta.dirname, '../../src/cli/main.ts');

/** A folder with files and a configuration over them; resolves to the configuration's path. */
function write(t: Test, engine: string, sql: readonly string[], files: Readonly<Record<string, string | Buffer>> = {}) {
  const folder = t.testdir({});
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
  const config = join(folder, 'rollcall.yaml');
  const audiences = sql.map((text, n) => `  - { name: list ${n}, source: s, sql: "${text}" }\n`).join('');
  writeFileSync(
    config,
    `store: sqlite:./rollcall.db\nsources: [{ id: s, writeKey: k }]\nengines:\n  lake: { type: duckdb, ${engine} }\naudiences:\n${audiences}`,
  );
  return config;
}

t.test('doctor --install asks the server of DuckDB, and says what it answered', async (t) => {
  const asked: string[] = [];
  const server = createServer(({ url = '' }, answer) => {
    asked.push(url);
    answer.writeHead(404).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const config = write(t, 'extensions: [no_such_extension]', ['select 1 as user_id']);
  // In a process of its own: DuckDB reads HTTP_PROXY when it makes its first instance.
  const env = {
    ...process.env,
    HOME: t.testdirName,
    HTTP_PROXY: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
  };
  const command = spawn(process.execPath, [MAIN, 'doctor', '--install', '-c', config], {
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [stdout, [code]] = await Promise.all([text(command.stdout), once(command, 'close')]);
  t.equal(code, 1);
  t.match(asked, [/^http:\/\/extensions\.duckdb\.org\/v[\d.]+\/\w+\/no_such_extension\.duckdb_extension\.gz$/]);
  t.match(stdout, /^FAILED {2}engine lake: the extension no_such_extension can't be installed: .*404/m);
  t.match(stdout, /is not installed\. Run: rollcall doctor --install/);
});

t.test('doctor counts the files of each table, and names the one that differs', async (t) => {
  const columns = 'columns: { id: text, n: bigint }';
  const config = write(
    t,
    `tables: { one: { files: 1.csv, ${columns} }, two: { files: '[12].csv', ${columns} }, late: { files: 'late*.csv', ${columns} }, cut: { files: cut.csv.gz, ${columns} }, other: { files: other.csv, ${columns} } }`,
    ['select id as user_id from one'],
    {
      '1.csv': 'id,n\na,1\n',
      '2.csv': 'id,n\nb,2\n',
      'cut.csv.gz': gzipSync('id,n\na,1\n').subarray(0, 20),
      'other.csv': 'id\na\n',
    },
  );
  const { code, stdout } = await rollcall(['doctor', '-c', config]);
  t.equal(code, 1);
  for (const line of [
    /^ok {6}engine lake: table one: a file$/m,
    /^ok {6}engine lake: table two: 2 files$/m,
    /^FAILED {2}engine lake: late: no file is there for late\*\.csv/m,
    /^FAILED {2}engine lake: cut\.csv\.gz is cut off/m,
    /^FAILED {2}engine lake: other\.csv has no column n; it has id\./m,
    /^ok {6}list_0: 1 member$/m,
  ])
    t.match(stdout, line);
});

t.test('config check --sql tries each definition, and runs none', async (t) => {
  const sql = [
    'select id as user_id from one',
    'select idd as user_id from one',
    'select id as user_id from other',
    "select id as user_id from 'guessed.csv'",
    "select error('it ran') as user_id from one",
    "select id as user_id, id as email, '1'::blob as photo from one",
  ];
  const config = write(
    t,
    'tables: { one: { files: 1.csv, columns: { id: text } }, other: { files: other.csv, columns: { id: text } } }',
    sql,
    { '1.csv': 'id\na\n', 'other.csv': 'id,n\na,1\n', 'guessed.csv': `id\n${'1\n'.repeat(20_480)}007\n` },
  );
  const plain = await rollcall(['config', 'check', '-c', config]);
  t.equal(plain.code, 0);
  const { code, stdout, stderr } = await rollcall(['config', 'check', '--sql', '-c', config]);
  t.equal(code, 1);
  t.match(stdout, /^3 definitions of 6 can be run\.$/m);
  const errors = stderr.split('\n').filter((line) => /^\w+_\w+: .*: list_\d: /.test(line));
  t.match(errors, [
    /^sql_failed: .*: list_1: .*"idd" not found/,
    /^file_differs: .*: list_2: other\.csv has the new column n/,
    /^types_guessed: .*: list_3: guessed\.csv, line 20482, column id: "007"/,
  ]);
  t.equal(errors.length, 3);
  t.match(stderr, /^warning: list_5: the SQL also returns email, photo, which nothing sends: `with` names/m);
  const lines = (await rollcall(['config', 'check', '--sql', '--json', '-c', config])).stdout.split('\n');
  t.ok(lines.includes('{"key":"list_5","unnamed":["email","photo"]}'));
});
