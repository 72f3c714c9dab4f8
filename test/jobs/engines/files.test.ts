import { spawnSync } from 'node:child_process';
import { linkSync, mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { constants, gzipSync, zstdCompressSync } from 'node:zlib';
import { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import t, { type Test } from 'tap';
import { openDuckdb } from '../../../jobs/engines/duckdb/duckdb.ts';
import { hidingValues } from '../../../jobs/engines/hidden-values.ts';
import { normalise } from '../../../src/config/normalise.ts';
import { fileSchema } from '../../../src/config/schema.ts';
import { systemClock } from '../../../src/kernel/clock.ts';
import { request } from '../../contract/engine.ts';

type Content = string | Buffer;
type Files = Readonly<Record<string, Content>>;
type Row = readonly [id: string, value: unknown];
/** Rows of the table, or the error with its code and a text that it has. */
type Said = readonly Row[] | readonly [code: string, message: RegExp];
interface Case {
  readonly files: Files;
  /** Settings of the table `orders`; null for SQL that names the file. */
  readonly table?: Readonly<Record<string, unknown>>;
  readonly sql?: string;
  /** SQL that others ran in the engine's file before. */
  readonly made?: string;
  readonly said: Said;
}

const COLUMNS = { id: 'text', n: 'bigint' };
const A1: readonly Row[] = [['a', 1]];
const A1B2: readonly Row[] = [...A1, ['b', 2]];
const utf16 = (text: string) => Buffer.from(text, 'utf16le');
const many = (row: (n: number) => string, count = 20_480) => Array.from({ length: count }, (_, n) => row(n)).join('');
const ids = many((n) => `user_${(n * 7919) % 99_991}\n`, 5_000);
const gz = gzipSync(`id\n${ids}`);
const zst = zstdCompressSync(`id\n${ids}`, { params: { [constants.ZSTD_c_checksumFlag]: 1 } });
const flipped = (bytes: Buffer) => {
  const other = Buffer.from(bytes);
  other[bytes.length >> 1] = (other[bytes.length >> 1] ?? 0) ^ 0xff;
  return other;
};
const ID = { columns: { id: 'text' } };
const COUNTED = 'select count(*)::varchar as user_id, 1 as value from orders';

const csv = (content: Content, said: Said, table: Case['table'] = {}): Case => ({
  files: { 'o.csv': content },
  table,
  said,
});
const typed = (type: string, value: string, sent: unknown, table: Case['table'] = {}): Case =>
  csv(`id,n\na,"${value}"\n`, Array.isArray(sent) ? (sent as unknown as Said) : [['a', sent]], {
    columns: { id: 'text', n: type },
    ...table,
  });
const differs = (message: RegExp) => ['file_differs', message] as const;
const cut = (message: RegExp) => ['source_incomplete', message] as const;
const guessed = (message: RegExp) => ['types_guessed', message] as const;
const named = (
  file: string,
  content: Content,
  said: Said,
  sql = `select id as user_id, n as value from '${file}'`,
) => ({
  files: { [file]: content },
  sql,
  said,
});

const viewed = (made: string, from: string): Case => ({
  files: { 'o.csv': `id,n\n${many((n) => `${n},1\n`)}007,1\n` },
  made,
  sql: `select id as user_id, n as value from ${from}`,
  said: guessed(/o\.csv, line 20482, column id: "007" is not BIGINT/),
});

const CASES: Readonly<Record<string, Case>> = {
  // Encodings and line ends
  'UTF-8 with a mark': csv('\ufeffid,n\na,1\n', A1),
  'UTF-16': csv(utf16('\ufeffid,n\nü,1\n'), [['ü', 1]], { encoding: 'utf-16' }),
  'UTF-16 that is not said': csv(utf16('\ufeffid,n\na,1\n'), differs(/o\.csv/)),
  'Latin-1': csv(Buffer.from('id,n\nü,1\n', 'latin1'), [['ü', 1]], { encoding: 'latin-1' }),
  'Latin-1 that is not said': csv(Buffer.from('id,n\nü,1\n', 'latin1'), differs(/o\.csv, line 2: this is not utf-8/)),
  CRLF: csv('id,n\r\na,1\r\nb,2\r\n', A1B2),
  'CR alone': csv('id,n\ra,1\rb,2\r', A1B2),
  'no line end at the end': csv('id,n\na,1\nb,2', A1B2),
  'blank lines': csv('id,n\n\na,1\n\n\nb,x\n', differs(/line 6, column n: "x"/)),
  // Quotes, delimiters, headers
  'a line end within quotes': csv('id,n\n"a\nb",1\nc,x\n', differs(/line 4, column n: "x"/)),
  'a delimiter within quotes': csv('id,n\n"a,b",1\n', [['a,b', 1]]),
  'doubled quotes': csv('id,n\n"a""b",1\n', [['a"b', 1]]),
  'a stray quote': csv('id,n\n"a"x,1\nb,2\n', differs(/line 2: a quote within a value is not doubled/)),
  'other quotes': csv("id;n\n'a;b';1\n", [['a;b', 1]], { delimiter: ';', quote: "'" }),
  'no quotes': csv('id,n\na"b,1\n', [['a"b', 1]], { quote: '' }),
  tabs: csv('id\tn\na\t1\n', A1, { delimiter: '\t' }),
  'another delimiter that is not said': csv('id;n\na;1\n', differs(/no column id, n; it has id;n/)),
  'no header': csv('a,1\nb,2\n', A1B2, { header: false }),
  'quoted names, in another order': csv('"N","id"\n1,a\n', A1),
  'a space after the delimiter in the header': csv('id, n\na,1\n', A1),
  // Columns
  'a missing column': csv('id\na\n', differs(/o\.csv has no column n; it has id\..*missingColumns: allow/)),
  'a missing column that may be': csv('id\na\n', [], { missingColumns: 'allow' }),
  'a new column': csv('id,n,x\na,1,2\n', differs(/o\.csv has the new column x\..*newColumns: allow/)),
  'a new column that may be': csv('id,x,n\na,2,1\n', A1, { newColumns: 'allow' }),
  'a column twice': csv('id,n,n\na,1,2\n', differs(/two columns n/)),
  'too many values': csv('id,n\na,1\nb,2,3\nc,3\n', differs(/line 3: the line has 3 values in place of 2/)),
  'too few values': csv('id,n\nb\na,1\n', differs(/line 2: the line has 1 values in place of 2/)),
  // Cuts and late files
  'cut between values': csv('id,n\na,1\nb', cut(/line 3: the line has 1 values.*last.*within the last minute/s)),
  'cut within quotes': csv('id,n\na,1\n"b,2\n', cut(/line 3: the quote that opens here is never closed/)),
  'no byte': csv('', cut(/o\.csv is empty/)),
  'only a header': csv('id,n\n', []),
  'no file': {
    files: {},
    table: { files: 'late/*.csv' },
    said: cut(/no file is there for late\/\*\.csv\. It may be late/),
  },
  'two lists, one with other columns': {
    files: { 'x/1.csv': 'id,n\na,1\n', 'x/2.csv': 'n,id\n2,b\n' },
    table: { files: 'x/*.csv' },
    said: A1B2,
  },
  'the second of two lists differs': {
    files: { 'x/1.csv': 'id,n\na,1\n', 'x/2.csv': 'id,n\nb,2\nc,x\n' },
    table: { files: ['x/1.csv', 'x/2.csv'] },
    said: differs(/x\/2\.csv, line 3, column n: "x" is not bigint\. .*n: text in columns/),
  },
  // Types
  'a value after line 20,480': csv(
    `id,n\n${many((n) => `c${n},10\n`)}dora,499.6\n`,
    differs(/line 20482, column n: "499\.6" is not bigint.*"decimal\(18,1\)"/),
  ),
  'an id with a leading zero': typed('text', '007', '007'),
  'a digit separator': typed('bigint', '1_000', differs(/"1_000"/)),
  'a negative exponent': typed('bigint', '12e-1', differs(/"12e-1"/)),
  'a negative number': typed('bigint', '-12', -12),
  'too many places': typed('decimal(18,2)', '1.999', differs(/"1\.999" is not decimal\(18,2\).*"decimal\(18,3\)"/)),
  'zeros as further places': typed('decimal(18,2)', '1.5000', 1.5),
  'a decimal comma': typed('decimal(18,2)', '499,60', 499.6, { decimal: ',' }),
  'a point with a decimal comma': typed('double', '1.234,5', differs(/"1\.234,5"/), { decimal: ',' }),
  'a day before the month': typed('date', '03/04/2026', '2026-04-03', { dateFormat: '%d/%m/%Y' }),
  'a day that is none': typed('date', '06/13/2026', differs(/"06\/13\/2026" is not date/), { dateFormat: '%d/%m/%Y' }),
  'a date with a time': typed('date', '2026-03-01 10:00:00', differs(/is not date/)),
  'a time with an offset': typed('timestamp', '2026-01-05T10:00:00+02:00', '2026-01-05T08:00:00.000Z'),
  'a time in its own form': typed('timestamp', '05.01.2026 10:00', '2026-01-05T10:00:00.000Z', {
    timestampFormat: '%d.%m.%Y %H:%M',
  }),
  'a boolean': typed('boolean', 'maybe', differs(/"maybe" is not boolean/)),
  'an empty number': csv('id,n\na,\nb,2\n', [['b', 2]]),
  // Compression
  'gzip of one column': { files: { 'o.csv.gz': gz }, table: ID, sql: COUNTED, said: [['5000', 1]] },
  'gzip cut in half': {
    files: { 'o.csv.gz': gz.subarray(0, gz.length >> 1) },
    table: ID,
    sql: COUNTED,
    said: cut(/o\.csv\.gz is cut off/),
  },
  'gzip without its last byte': {
    files: { 'o.csv.gz': gz.subarray(0, -1) },
    table: ID,
    sql: COUNTED,
    said: cut(/o\.csv\.gz is cut off/),
  },
  'gzip with a wrong byte': {
    files: { 'o.csv.gz': flipped(gz) },
    table: ID,
    sql: COUNTED,
    said: differs(/o\.csv\.gz is damaged/),
  },
  'gzip of two members, the second cut': {
    files: { 'o.csv.gz': Buffer.concat([gz, gzipSync(ids).subarray(0, 99)]) },
    table: ID,
    sql: COUNTED,
    said: cut(/is cut off/),
  },
  'zstd of two frames': {
    files: { 'o.csv.zst': Buffer.concat([zst, zstdCompressSync(ids)]) },
    table: ID,
    sql: COUNTED,
    said: [['10000', 1]],
  },
  'zstd cut in half': {
    files: { 'o.csv.zst': zst.subarray(0, zst.length >> 1) },
    table: ID,
    sql: COUNTED,
    said: cut(/o\.csv\.zst is cut off/),
  },
  'zstd of two frames, the second cut': {
    files: { 'o.csv.zst': Buffer.concat([zst, zst.subarray(0, -2)]) },
    table: ID,
    sql: COUNTED,
    said: cut(/is cut off/),
  },
  'zstd with a wrong byte': {
    files: { 'o.csv.zst': flipped(zst) },
    table: ID,
    sql: COUNTED,
    said: differs(/o\.csv\.zst is damaged/),
  },
  'a wrong type in gzip': {
    files: { 'o.csv.gz': gzipSync('id,n\na,1\nb,x\n') },
    table: {},
    said: differs(/o\.csv\.gz, line 3, column n/),
  },
  'gzip that SQL names, cut': {
    files: { 'o.csv.gz': gz.subarray(0, gz.length >> 1) },
    sql: "select id as user_id, 1 as value from 'o.csv.gz'",
    said: cut(/o\.csv\.gz is cut off/),
  },
  // JSON
  'ids of JSON as they stand': {
    files: { 'o.jsonl': '{"id":"E621E1F8-C36C-495A-93FC-0C247A3E6E5F","n":1}\n{"id":12345678901234567890,"n":2}\n' },
    table: {},
    said: [
      ['12345678901234567890', 2],
      ['E621E1F8-C36C-495A-93FC-0C247A3E6E5F', 1],
    ],
  },
  'JSON of another type': {
    files: { 'o.jsonl': '{"id":"a","n":1}\n\n{"id":"b","n":2.5}\n' },
    table: {},
    said: differs(/line 3, column n: "2\.5"/),
  },
  'JSON without a key': { files: { 'o.jsonl': '{"id":"a"}\n' }, table: {}, said: differs(/has no column n/) },
  'a list in JSON': { files: { 'o.json': '[{"id":"a","n":1},{"id":"b","n":2}]' }, table: {}, said: A1B2 },
  'JSON within JSON': {
    files: { 'o.jsonl': '{"id":"a","n":{"x":[1]}}\n' },
    table: { columns: { id: 'text', n: 'json' } },
    said: [['a', { x: [1] }]],
  },
  'JSON that is none': {
    files: { 'o.jsonl': '{"id":"a","n":1}\n{"id":b,"n":1}\n{"id":"c","n":1}\n' },
    table: {},
    said: differs(/o\.jsonl, line 2: this is not valid JSON/),
  },
  'JSON cut off': {
    files: { 'o.jsonl': '{"id":"a","n":1}\n{"id":"b' },
    table: {},
    said: cut(/o\.jsonl, line 2: the file ends within a record/),
  },
  // Folders
  'folders as columns': {
    files: { 'x/n=1/o.csv': 'id\na\n', 'x/n=2/o.csv': 'id\nb\n' },
    table: { files: 'x/*/*.csv', ...ID, partitions: { n: 'bigint' } },
    said: A1B2,
  },
  'a folder of another type': {
    files: { 'x/n=1/o.csv': 'id\na\n', 'x/n=no/o.csv': 'id\nb\n' },
    table: { files: 'x/*/*.csv', ...ID, partitions: { n: 'bigint' } },
    said: differs(/x\/n=no\/o\.csv, line 2, column n: "no"/),
  },
  // Guesses
  'a guess that rounds': named(
    'o.csv',
    `id,n\n${many((n) => `c${n},10\n`)}dora,499.6\n`,
    guessed(/o\.csv, line 20482, column n: "499\.6" is not BIGINT.*"decimal\(18,1\)"/),
  ),
  'a guess that folds ids': named(
    'o.csv',
    `id,n\n${many((n) => `${n},1\n`)}007,1\n`,
    guessed(/line 20482, column id: "007" is not BIGINT/),
  ),
  'a guess in read_csv': named(
    'o.csv',
    `id,n\n${many((n) => `${n},1\n`)}+55,1\n`,
    guessed(/line 20482, column id: "\+55"/),
    "select id as user_id, n as value from read_csv('o.csv', header = true)",
  ),
  'types that are said': named(
    'o.csv',
    'id,n\n007,1\n',
    [['007', 1]],
    "select id as user_id, n as value from read_csv('o.csv', types = {'id': 'VARCHAR'})",
  ),
  'a column that SQL does not name': named('o.csv', 'id,n,zip\na,1,00123\nb,2,00124\n', A1B2),
  'a guess of day and month': named(
    'o.csv',
    'id,n\na,03/04/2026\n',
    guessed(/line 2, column n: "03\/04\/2026" is not DATE/),
  ),
  'a UUID in JSON': named(
    'o.jsonl',
    '{"id":"E621E1F8-C36C-495A-93FC-0C247A3E6E5F","n":1}\n',
    guessed(/o\.jsonl, line 1, column id: "E621E1F8/),
  ),
  'a UUID within JSON': named(
    'o.json',
    '{"u":{"id":"E621E1F8-C36C-495A-93FC-0C247A3E6E5F"},"n":1}\n',
    guessed(/column u\.id: "E621E1F8/),
    "select u.id::varchar as user_id, n as value from read_json('o.json')",
  ),
  'a key that only a record after 20,480 has': {
    files: { 'o.jsonl': `${many((n) => `{"id":"u${n}"}\n`)}{"id":"late","n":1}\n` },
    table: {},
    said: [['late', 1]],
  },
  'a new key after 20,480 records': {
    files: { 'o.jsonl': `${many((n) => `{"id":"u${n}","n":1}\n`)}{"id":"late","n":1,"x":1}\n` },
    table: {},
    said: differs(/o\.jsonl has the new column x/),
  },
  'a guess in a view': viewed("create view v as select * from read_csv('o.csv')", 'v'),
  'a guess in a view of a view, whose columns have other names': viewed(
    `create view "of" as select id as i, n as m from 'o.csv'; create view v(id, n) as select * from "of"`,
    'v',
  ),
  'a guess in a macro': viewed(
    'create macro o(file, h) as table select id, n from read_csv(file, header := h)',
    "o('o.csv', true)",
  ),
  'a guess in a macro of one value': viewed(
    'create macro most(file) as (select max(id) from read_csv(file))',
    "(select most('o.csv') as id, 1 as n)",
  ),
  'types that a view says': {
    files: { 'o.csv': 'id,n\n007,1\n' },
    made: "create view v as select id, n from read_csv('o.csv', types = {'id': 'VARCHAR'})",
    sql: 'select id as user_id, n as value from v',
    said: [['007', 1]],
  },
  'a column that a view has and SQL does not name': {
    files: { 'o.csv': 'id,n,zip\na,1,00123\n' },
    made: "create view v as select * from 'o.csv'",
    sql: 'select id as user_id, n as value from v',
    said: A1,
  },
  // Ten more that nobody handed over
  'a header of an encoding with a mark, in gzip': {
    files: { 'o.csv.gz': gzipSync('\ufeffid,n\r\na,1\r\n') },
    table: {},
    said: A1,
  },
  'an id with a mark within': csv('id,n\n\ufeffa,1\n', [['\ufeffa', 1]]),
  'NUL bytes at the end of a file that was not filled': csv(
    Buffer.concat([Buffer.from('id,n\na,1\n'), Buffer.alloc(64)]),
    cut(/o\.csv, line 3: the line has 1 values/),
  ),
  'a page of HTML in place of a list': csv(
    '<!DOCTYPE html>\n<html>Log in</html>\n',
    differs(/no column id, n; it has <!DOCTYPE html>/),
  ),
  'hexadecimal text as a number': typed('bigint', '0x1F', differs(/"0x1F"/)),
  'a number beyond its type': typed('bigint', '9223372036854775808', differs(/"9223372036854775808" is not bigint/)),
  'infinity as a time, which is a time but no value': typed('timestamp', 'infinity', []),
  'a name with a quote and a space': {
    files: { "it's here.csv": 'id,n\na,x\n' },
    table: {},
    said: differs(/it's here\.csv, line 2, column n: "x"/),
  },
  'a file of another kind under the pattern': {
    files: { 'x/1.csv': 'id,n\na,1\n', 'x/README.csv': 'Do not delete!\n' },
    table: { files: 'x/*.csv' },
    said: differs(/x\/README\.csv has no column id, n/),
  },
  'a column named as our own': {
    files: { 'o.csv': 'id,n,filename,rollcall_record\na,x,b,c\n' },
    table: { newColumns: 'allow' },
    said: differs(/line 2, column n: "x"/),
  },
};

async function open(folder: string, given: Readonly<Record<string, unknown>>) {
  const file = fileSchema.parse({
    sources: [{ id: 's', writeKey: 'k' }],
    engines: { lake: { type: 'duckdb', path: './a.duckdb', ...given } },
  });
  const config = normalise(file, folder).engines['lake'];
  if (config?.type !== 'duckdb') throw new Error('no engine');
  return openDuckdb(config, { folder, clock: systemClock });
}

function write(folder: string, files: Files): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
}

async function inFile(path: string, ...statements: readonly string[]): Promise<void> {
  const instance = await DuckDBInstance.create(path);
  const connection = await instance.connect();
  for (const statement of statements) await connection.run(statement);
  connection.closeSync();
  instance.closeSync();
}

let cases = 0;
async function look(
  t: Test,
  { files, table, sql = 'select id as user_id, n as value from orders', made }: Omit<Case, 'said'>,
) {
  cases += 1;
  const folder = join(t.testdirName, String(cases));
  mkdirSync(folder);
  write(folder, files);
  const orders = { files: Object.keys(files)[0], columns: COLUMNS, ...table };
  if (made !== undefined) await inFile(join(folder, 'a.duckdb'), `set file_search_path = '${folder}'; ${made}`);
  const engine = await open(folder, table ? { tables: { orders } } : {});
  try {
    const { plan } = await engine.stage(request({ key: 'v', kind: 'trait', sql }));
    const { userIds, values } = await engine.changes(plan, 0, 100);
    return userIds.map((id, row) => [id, JSON.parse(values[row] ?? '').v]);
  } finally {
    await engine.close();
  }
}

t.test('reads what a file says, or says what is wrong with it', async (t) => {
  t.testdir({});
  for (const [name, { said, ...each }] of Object.entries(CASES)) {
    const found = await look(t, each).catch((error: Error & { code?: string }) => error);
    const [code, message] = said;
    if (message instanceof RegExp) t.match(found, { code, message }, name);
    else t.same(found instanceof Error ? found.message : found, said, name);
  }
});

t.test('reads Parquet files whose types are wider or narrower, and names the file that has another', async (t) => {
  const folder = t.testdir({});
  const parts = Object.entries({ '1': '1::integer', '2': '2::bigint', '3': "'x'" });
  await inFile(
    ':memory:',
    ...parts.map(([file, n]) => `COPY (SELECT 'u${file}' AS id, ${n} AS n) TO '${join(folder, `${file}.parquet`)}'`),
  );
  const rows = async (files: readonly string[], type: string) => {
    const engine = await open(folder, { tables: { orders: { files, columns: { id: 'text', n: type } } } });
    const sql = 'select id as user_id from orders where n > 0';
    const look = await engine.preview(request({ sql }), 5).finally(() => engine.close());
    return [...look.sample.userIds];
  };
  t.same(await rows(['1.parquet', '2.parquet'], 'bigint'), ['u1', 'u2']);
  await t.rejects(rows(['1.parquet', '3.parquet'], 'bigint'), {
    code: 'file_differs',
    message: /3\.parquet, row 1, column n: "x" is not bigint/,
  });
  await t.rejects(rows(['2.parquet'], 'date'), { message: /2\.parquet: the column n is bigint, not date/ });
});

t.test('fails a run whose file changes while it is read, and keeps no plan of it', async (t) => {
  const folder = t.testdir({ 'o.csv': 'id,n\na,1\n' });
  const engine = await open(folder, { tables: { orders: { files: 'o.csv', columns: COLUMNS } } });
  t.teardown(() => engine.close());
  const { run } = DuckDBConnection.prototype;
  t.intercept(DuckDBConnection.prototype, 'run', {
    value: function changing(this: DuckDBConnection, ...query: Parameters<typeof run>) {
      if (/^CREATE TABLE "?rollcall/.test(query[0])) utimesSync(join(folder, 'o.csv'), 1, 1);
      return run.apply(this, query);
    },
  });
  const asked = request({ sql: 'select id as user_id from orders' });
  await t.rejects(engine.stage(asked), { code: 'source_incomplete', message: /o\.csv changed while it was read/ });
  t.equal(await engine.staged(asked.plan), null);
});

t.test('says of an old file that nobody writes it any more', async (t) => {
  const folder = t.testdir({ 'o.csv': '' });
  utimesSync(join(folder, 'o.csv'), 1_767_225_600, 1_767_225_600);
  const engine = await open(folder, { tables: { orders: { files: 'o.csv', columns: COLUMNS } } });
  t.teardown(() => engine.close());
  const sql = 'select id as user_id from orders';
  await t.rejects(engine.preview(request({ sql }), 1), { message: /has not changed since 2026-01-01.*get it again/ });
});

t.test('shows values of files to a person who asks, and keeps them out of errors of runs', async (t) => {
  const folder = t.testdir({ 'o.csv': 'id,n\na,ada@example.com\n' });
  const engine = await open(folder, { tables: { orders: { files: 'o.csv', columns: COLUMNS } } });
  t.teardown(() => engine.close());
  const hidden = hidingValues(engine, new Map());
  const asked = request({ sql: 'select id as user_id from orders where n > 0' });
  await t.rejects(hidden.preview(asked, 1), { message: /line 2, column n: "ada@example\.com"/ });
  const error = await hidden.stage(asked).catch((error: Error) => error);
  t.match(error, { code: 'file_differs', message: /o\.csv, line 2, column n: "…" is not bigint/ });
  t.notMatch(JSON.stringify(error, Object.getOwnPropertyNames(error)), /ada@example/);
});

t.test('looks through a file once for as long as neither it nor the SQL changes', async (t) => {
  const folder = t.testdir({ 'o.csv': 'id,n\na,1\n' });
  const engine = await open(folder, {});
  t.teardown(() => engine.close());
  let looks = 0;
  const { run } = DuckDBConnection.prototype;
  t.intercept(DuckDBConnection.prototype, 'run', {
    value: function counted(this: DuckDBConnection, ...query: Parameters<typeof run>) {
      if (/rollcall_file/.test(query[0])) looks += 1;
      return run.apply(this, query);
    },
  });
  const sql = "select id as user_id from 'o.csv' where n > 0";
  const look = async (text = sql) => {
    await engine.preview(request({ sql: text }), 1);
    return looks;
  };
  t.same([await look(), await look()], [1, 1]);
  writeFileSync(join(folder, 'o.csv'), 'id,n\na,1\nb,2\n');
  t.same([await look(), await look(), await look(`${sql} and id <> 'x'`)], [2, 2, 2]);
  t.equal(await look("select id as user_id from read_csv('o.csv') where n > 0"), 3);
});

t.test('keeps looks in the file of the engine, for later processes', async (t) => {
  const folder = t.testdir({ 'o.csv': 'id,n\na,1\n', 'o.csv.gz': gzipSync('id\na\n') });
  const sql =
    "select id as user_id from 'o.csv' where n > 0 union all select id from read_csv('o.csv.gz', header = true)";
  const looks = () => {
    const run = spawnSync(process.execPath, [join(import.meta.dirname, 'looking.ts'), folder, sql], {
      encoding: 'utf8',
    });
    t.equal(run.status, 0, run.stderr);
    return JSON.parse(run.stdout);
  };
  t.same(looks(), { looks: 1, kept: 3 });
  t.same(looks(), { looks: 0, kept: 3 });
  writeFileSync(join(folder, 'o.csv'), 'id,n\na,1\nb,2\n');
  t.same(looks(), { looks: 1, kept: 4 });
});

t.test('ends a look with the signal of its run, and does not take it for a look that found nothing', async (t) => {
  const folder = t.testdir({ 'o.csv': `id,n\n${many((n) => `user_${n},1\n`, 500_000)}` });
  // One interrupt may be too early, and they are repeated twice a second.
  for (let n = 0; n < 50; n += 1) linkSync(join(folder, 'o.csv'), join(folder, `o${n}.csv`));
  const engine = await open(folder, {});
  t.teardown(() => engine.close());
  const { run } = DuckDBConnection.prototype;
  let ending = new AbortController();
  const ends: unknown[] = [];
  t.intercept(DuckDBConnection.prototype, 'run', {
    value: async function aborting(this: DuckDBConnection, ...query: Parameters<typeof run>) {
      if (!/rollcall_file/.test(query[0])) return run.apply(this, query);
      const running = run.apply(this, query);
      ending.abort(new Error('Ctrl-C'));
      await running.catch((error: Error) => ends.push(error.message));
      return running;
    },
  });
  const sql = "select id as user_id from 'o*.csv' where n > 0";
  for (let tries = 1; tries <= 2; tries += 1) {
    ending = new AbortController();
    await t.rejects(engine.stage(request({ sql, signal: ending.signal })), { message: 'Ctrl-C' });
    t.match(
      ends,
      Array.from({ length: tries }, () => /^INTERRUPT/),
    );
  }
});

t.test(
  'names an extension that is not installed, and a database that does not answer, without its password',
  async (t) => {
    const folder = t.testdir({});
    await t.rejects(open(folder, { extensions: ['spatial_of_tests'] }), {
      code: 'engine_unreachable',
      message: /extension spatial_of_tests of DuckDB is not installed\. Run: rollcall doctor --install/,
    });
    const attach = { erp: { type: 'postgres', url: 'postgres://me:pass-w0rd@127.0.0.1:1/erp' } };
    const error = await open(folder, { attach }).catch((error: Error) => error);
    t.match(error, { code: 'engine_unreachable', message: /extension/ });
    t.notMatch(JSON.stringify(error, Object.getOwnPropertyNames(error)), /pass-w0rd/);
  },
);

t.test('attaches another DuckDB file for reading only', async (t) => {
  const folder = t.testdir({});
  await inFile(join(folder, 'other.duckdb'), "create table users as select 'u' as id");
  const engine = await open(folder, { attach: { crm: { type: 'duckdb', path: './other.duckdb' } } });
  t.teardown(() => engine.close());
  const { sample } = await engine.preview(request({ sql: 'select id as user_id from crm.users' }), 1);
  t.same(sample.userIds, ['u']);
  const sql = "select table_name as user_id from duckdb_tables() where database_name = 'crm'";
  t.match(await engine.preview(request({ sql }), 1), { entered: 1 });
});
