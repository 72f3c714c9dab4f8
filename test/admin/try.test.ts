import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { link, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import t from 'tap';
import { until } from '../helpers/until.ts';
import type { Json } from './contract.ts';
import { SECRETS, type Service, V1 } from './service.ts';
import { shop } from './shop.ts';

async function tried({ post }: Service, body: object, token: string = SECRETS.root): Promise<Json> {
  const response = await post(`${V1}/try`, body, token);
  const answer = (await response.json()) as { readonly code?: string };
  if (response.status !== 200) throw Object.assign(new Error(JSON.stringify(answer)), answer);
  return answer;
}

const draft = (when: object, more: object = {}) => ({ name: 'New', source: 'shop', when, ...more });

t.test('tries a short definition', async (t) => {
  const service = await shop(t);
  await service.app.sync.run();
  const when = {
    all: [
      { performed: 'Order Completed', within: '30 days' },
      {
        any: [
          { trait: 'plan', is: 'pro' },
          { trait: 'age', gt: 50 },
        ],
      },
    ],
  };
  const found = await tried(service, { draft: draft(when) }, SECRETS.reader);
  t.match(found, {
    mistakes: [],
    warnings: [],
    key: 'new',
    kind: 'audience',
    engine: 'lake',
    failure: null,
    difference: null,
  });
  t.match(found.yaml, /^audiences:\n {2}- name: New\n/);
  t.match(found.sql, /\$now/);
  t.match(found.people, { members: 1, invalid: 0, sample: [{ userId: 'u1' }] });
  t.match(found.people.funnel[0], { path: 'when.all[0]', condition: 'performed', people: 2, left: 2 });
  t.match(found.people.sample[0].why, [
    { path: 'when.all[0]', times: 2, value: null },
    { path: 'when.all[1].any[0]', times: null, value: 'pro' },
    { path: 'when.all[1].any[1]', times: null, value: 40 },
  ]);
  t.same(
    found.overlap.map(({ key, members, both }: Json) => [key, members, both]),
    [
      ['buyers', 2, 1],
      ['by_hand', 4, 1],
      ['live_ones', 1, 0],
    ],
  );
  t.equal(found.past.at(-1).members, 1);
  await t.test('writes nothing but the audit log', async (t) => {
    t.same((await service.app.store.audiences()).map(({ key }) => key).toSorted(), [
      'buyers',
      'by_hand',
      'live_ones',
      'orders',
    ]);
    const [entry] = (await service.json(`${V1}/audit`)).data;
    t.match(entry, { who: 'grafana', action: 'try', target: null, outcome: 'done' });
  });
});

t.test('compares an edited definition with what receivers know', async (t) => {
  const service = await shop(t);
  await service.app.sync.run();
  const edited = await tried(service, {
    edits: 'buyers',
    draft: draft({ performed: 'Order Completed', within: '10 days' }, { name: 'Buyers' }),
  });
  t.match(edited.difference, {
    key: 'buyers',
    before: 2,
    entered: 0,
    exited: 1,
    held: null,
    sample: [{ userId: 'u2', change: 'exited' }],
  });
  const live = await tried(service, { draft: draft({ viewed: 'Home' }, { name: 'Live ones', live: true }) });
  t.match(live.difference, { key: 'live_ones', before: 1, entered: 0, exited: 0 });
  const trait = await tried(service, {
    draft: { name: 'Orders', source: 'shop', value: { sum: 'Order Completed', of: 'properties.total' } },
  });
  t.match(trait, { kind: 'trait', overlap: null, difference: { before: 2, entered: 0, exited: 0, changed: 2 } });
  t.match(trait.people.sample.map(({ value }: Json) => value.orders).toSorted(), [35, 90]);
  const sql = await tried(service, {
    draft: { name: 'By hand', source: 'shop', sql: "select 'u' || (range + 3) as user_id from range(3)" },
  });
  t.match(sql.difference, { before: 4, entered: 2, exited: 3 });
  t.match(await tried(service, { edits: 'nobody', draft: draft({ viewed: 'Home' }) }).catch(({ code }) => ({ code })), {
    code: 'unknown_audience',
  });
});

t.test('gives mistakes their places', async (t) => {
  const service = await shop(t);
  const text =
    'audiences:\n  - name: New\n    source: shp\n    when:\n      all:\n        - performed: A\n          withn: 3 days\n';
  t.match((await tried(service, { draft: text })).mistakes, [
    { path: 'audiences[0].source', line: 3, column: 5, message: /shop/ },
    { path: 'audiences[0].when.all[0].withn', line: 7, column: 11 },
  ]);
  t.match((await tried(service, { draft: 'name: "a' })).mistakes, [{ line: 1 }]);
  t.match((await tried(service, { draft: '' })).mistakes, [{ message: /needs an audience or a trait/ }]);
  t.match((await tried(service, { draft: 'audiences: []' })).mistakes, [{ message: /must have one/ }]);
  const circle = draft({ inAudience: 'other' }, { name: 'Buyers' });
  t.match((await tried(service, { draft: circle })).mistakes, [{ path: 'when.inAudience', line: 1 }]);
  t.match((await tried(service, { draft: draft({ inAudience: 'new' }) })).mistakes, [{ message: /circle/ }]);
  const secret = { name: 'New', source: 'shop', sql: "select '\u0024{VARIABLE}' as user_id" };
  t.match((await tried(service, { draft: secret })).mistakes, [{ path: 'sql', message: /a draft gets no variables/ }]);
  const file = { name: 'New', source: 'shop', sqlFile: './rollcall.token' };
  t.match((await tried(service, { draft: file })).mistakes, [{ path: 'sqlFile', message: /is not read for a draft/ }]);
  const model = { name: 'New', source: 'shop', dbt: { project: '/etc', model: 'm' } };
  t.match((await tried(service, { draft: model })).mistakes, [{ path: 'dbt', message: /is not read for a draft/ }]);
  t.match((await tried(service, { draft: { name: 'New', source: 'shop', sql: 'select nothing' } })).failure, {
    code: 'sql_failed',
    message: /nothing/,
  });
});

t.test('refuses drafts that would keep the parser busy', async (t) => {
  const service = await shop(t);
  for (const text of [
    ...['[', '{a: ', '- ', '? ', ',', '&a ', '*a ', '!a ', 'x: ', '"', '---\n', 'a: 1\n'].map((part) =>
      part.repeat(40_000),
    ),
    Array.from({ length: 10_000 }, (_, n) => `k${n}: 1\n`).join(''),
    '? '.repeat(2_000),
    `when: ${'{ not: '.repeat(150)}`,
    `schedule: ${'0-59/1,'.repeat(10_000)}1 * * * *`,
  ]) {
    const { mistakes, key } = await tried(service, { draft: text }, SECRETS.reader);
    t.ok(mistakes.length > 0 && key === null, text.slice(0, 20));
  }
});

t.test('opens what is configured, without values of variables', async (t) => {
  const service = await shop(t);
  const { definition } = await service.json(`${V1}/audiences/by_hand`);
  t.match(definition.yaml, '\u0024{VARIABLE}');
  t.notMatch(definition.yaml, SECRETS.variable);
  const edited = await tried(service, { draft: (await service.json(`${V1}/audiences/buyers`)).definition.yaml });
  t.match(edited, { mistakes: [], key: 'buyers', people: { members: 2 } });
});

t.test('lists the names that the log has seen', async (t) => {
  const { json } = await shop(t);
  t.same(await json(`${V1}/try/names`, { token: SECRETS.reader }), {
    sources: ['shop'],
    engines: ['lake'],
    computed: [
      { key: 'buyers', kind: 'audience' },
      { key: 'by_hand', kind: 'audience' },
      { key: 'live_ones', kind: 'audience' },
      { key: 'orders', kind: 'trait' },
    ],
    events: [
      { kind: 'track', name: 'Cart Viewed', properties: [] },
      { kind: 'page', name: 'Home', properties: ['path'] },
      { kind: 'track', name: 'Order Completed', properties: ['cart id', 'total'] },
    ],
    traits: ['age', 'plan'],
  });
});

t.test('takes SQL of nobody but the token that may do everything', async (t) => {
  const service = await shop(t);
  const sql = { draft: { name: 'New', source: 'shop', sql: "select 'u1' as user_id" } };
  await t.rejects(tried(service, sql, SECRETS.reader), { code: 'forbidden' });
  await t.rejects(tried(service, sql, SECRETS.operator), { code: 'forbidden' });
  t.match(await tried(service, sql), { people: { members: 1 } });
  const { data } = await service.json(`${V1}/audit`);
  t.match(
    data.map(({ who, outcome }: Json) => [who, outcome]),
    [
      ['admin', 'done'],
      ['grafana', 'forbidden'],
    ],
  );
  t.notMatch(JSON.stringify(data), 'select');
});

t.test('SQL that is tried reads data and nothing else', async (t) => {
  const folder = t.testdir({
    customers: { 'a.csv': 'user_id,spent\nu1,5\n', 'b.csv': 'user_id,spent\nu7,70\n' },
    '.env': 'user_id\nhush-env\n',
    '.hidden': { 'x.csv': 'user_id\nhush-hidden\n' },
    'rollcall.token': 'user_id\nhush-token\n',
    'notes.txt': 'user_id\nhush-notes\n',
    'token.csv': t.fixture('symlink', 'rollcall.token'),
    'env.csv': t.fixture('symlink', '.env'),
    'data.csv': t.fixture('symlink', '/etc/passwd'),
    'away.csv': t.fixture('symlink', `${t.testdirName}-away/away.csv`),
    up: t.fixture('symlink', '..'),
    store: {
      'copy.csv': t.fixture('symlink', '../rollcall.db'),
      'snapshots.csv': t.fixture('symlink', '../audiences.duckdb'),
    },
    'names.json': '[{"user_id":"u8"}]',
  });
  await mkdir(`${folder}-away`, { recursive: true });
  t.teardown(() => rm(`${folder}-away`, { recursive: true }));
  await writeFile(`${folder}-away/away.csv`, 'user_id\nhush-away\n');
  await link(join(folder, '.env'), join(folder, 'hard.csv'));
  await link(join(folder, 'rollcall.token'), join(folder, 'hard.json'));
  const made = await DuckDBInstance.create(join(folder, 'erp.db'));
  const maker = await made.connect();
  await maker.run("CREATE TABLE people AS SELECT 'u9' AS user_id");
  await maker.run("CREATE VIEW sly AS SELECT column0 AS user_id FROM read_csv('/etc/passwd', header = false)");
  await maker.run("CREATE MACRO slier() AS TABLE SELECT content AS user_id FROM read_text('/etc/passwd')");
  maker.closeSync();
  made.closeSync();
  const customers = { files: 'customers/*.csv', columns: { user_id: 'text', spent: 'integer' } };
  const lake = {
    type: 'duckdb',
    path: `${folder}/audiences.duckdb`,
    tables: { customers },
    attach: { erp: { type: 'duckdb', path: `${folder}/erp.db` } },
  };
  const service = await shop(
    t,
    { engines: { lake }, admin: { token: SECRETS.root, tokenFile: './rollcall.token' } },
    folder,
  );
  await service.app.sync.run();
  const sql = (text: string) =>
    tried(service, { draft: { name: 'New', source: 'shop', sql: text }, parts: ['people'] });

  for (const [what, query, users] of [
    ['files under the folder', "select user_id from read_csv('customers/*.csv')", ['u1', 'u7']],
    ['a file by its name', "from 'names.json'", ['u8']],
    ['a file by its whole path', `select user_id from read_csv('${folder}/customers/a.csv')`, ['u1']],
    ['tables', 'select user_id from customers where spent > 10', ['u7']],
    ['attached databases', 'select user_id from erp.people', ['u9']],
    ['views of the log', "select distinct user_id from tracks where event = 'Cart Viewed'", ['u3']],
    ['its own rows', "select 'a' || range as user_id from range(2)", ['a0', 'a1']],
  ] as const) {
    await t.test(`reads ${what}`, async (t) => {
      const { people, failure, mistakes } = await sql(query);
      t.same({ failure, mistakes }, { failure: null, mistakes: [] });
      t.same(people.sample.map(({ userId }: Json) => userId).toSorted(), users);
    });
  }

  const members = `members_${createHash('sha256').update('buyers').digest('hex').slice(0, 16)}`;
  const attacks: Readonly<Record<string, string>> = {
    'a dotted file': "select * from read_csv('.env')",
    'a dotted file by its whole path': `select * from read_csv('${folder}/.env')`,
    'a file in a dotted folder': "select * from '.hidden/x.csv'",
    'all files by a glob': "select * from read_csv('**/*.csv')",
    'dotted files by a glob': "select * from read_csv('.*')",
    'files beneath a link by a glob': "select * from read_csv('up/*/.env')",
    'a folder above': "select * from read_csv('../away.csv')",
    'a folder above, within a path': "select * from read_csv('customers/../../away.csv')",
    'a folder above, by a link': "select * from 'up/away.csv'",
    'a link to a dotted file': "select * from 'env.csv'",
    'a link to the token': "select * from 'token.csv'",
    'a link to another folder': "select * from 'away.csv'",
    'a link to a file of the machine': "select * from read_csv('data.csv', header = false)",
    'a hard link to a dotted file': "select * from 'hard.csv'",
    'a hard link to the token': "select * from read_csv('hard.json')",
    'a link to the store': "select * from read_csv('store/copy.csv', ignore_errors = true)",
    'a link to the snapshots': "select * from read_csv('store/snapshots.csv', ignore_errors = true)",
    'the token': "select * from read_csv('rollcall.token')",
    'a text': "select * from read_csv('notes.txt')",
    'a file of the machine': "select * from read_csv('/etc/passwd', header = false)",
    'the environment of the process': "select * from read_csv('/proc/self/environ')",
    'a name that is put together': "select * from read_csv(concat('/etc/', 'passwd'), header = false)",
    'a name in a list': "select * from read_csv(['customers/a.csv', '.env'], union_by_name = true)",
    'a name in a variable': "select * from read_csv(getvariable('f'))",
    'text of a file': "select content as user_id from read_text('customers/a.csv')",
    'bytes of a file': "select content as user_id from read_blob('customers/a.csv')",
    'the names of files': "select file as user_id from glob('/etc/*')",
    'the form of a file': "select * from sniff_csv('.env')",
    'SQL within SQL': "select * from query('select * from read_text(''/etc/passwd'')')",
    'a table by a text': "select * from query_table('.env')",
    'its settings': 'select value as user_id from duckdb_settings()',
    'its secrets': 'select name as user_id from duckdb_secrets()',
    'variables of the environment': "select getenv('PATH') as user_id",
    'the store by its path': "select * from sqlite_scan('rollcall.db', 'messages')",
    'a database by its path': "select * from read_duckdb('audiences.duckdb')",
    'another server': "select * from postgres_scan('host=127.0.0.1', 'public', 'users')",
    'a server of the web': "select * from read_csv('http://127.0.0.1:9/x.csv')",
    'a bucket': "select * from 's3://bucket/x.parquet'",
    'snapshots of the engine': `select user_id from rollcall.${members}`,
    'snapshots of the engine by its name': `select user_id from audiences.rollcall.${members}`,
    'files by a view of an attached database': 'select user_id from erp.sly',
    'files by a macro of an attached database': 'select user_id from erp.slier()',
    'an attached database, to write': "insert into erp.people values ('u6')",
    'a second statement': "select 1 as user_id; attach 'x.db'",
    'a second statement that looks like a text':
      "select 'a' as user_id, 1 as a$$ ; attach 'x.db' as x; select 'b' as user_id, 2 as b$$",
    'a statement after a parenthesis':
      "select 'a' as user_id) as x; copy (select 1) to 'x.csv'; select * from (select 'a' as user_id",
    attaching: "attach 'x.db'",
    'attaching within a query': "select * from (attach 'x.db')",
    copying: "copy (select 1) to 'x.csv'",
    exporting: "export database 'x'",
    installing: 'install httpfs',
    loading: "load 'httpfs'",
    'a setting': 'set enable_external_access = true',
    'a setting that is put back': 'reset lock_configuration',
    'a pragma': 'pragma database_list',
    'a call': 'call pragma_version()',
    'a table of its own': "create table x as select 'a' as user_id",
  };
  for (const [what, query] of Object.entries(attacks)) {
    await t.test(`refuses ${what}`, async (t) => {
      const answer = await sql(query);
      t.equal(answer.people, null);
      t.match(answer.failure, { code: /^(sql_failed|source_incomplete|engine_failed)$/, message: String });
      t.notMatch(JSON.stringify(answer), /hush|root:/);
    });
  }
  t.same((await sql('select user_id from erp.people')).people.members, 1);
  t.notOk(existsSync(join(folder, 'x.csv')) || existsSync(join(folder, 'x.db')));
});

t.test('SQL that is tried has limits', async (t) => {
  const service = await shop(t);
  const sql = (text: string, signal?: AbortSignal) =>
    service.ask(`${V1}/try`, {
      ...{ method: 'POST', headers: { 'content-type': 'application/json' } },
      body: JSON.stringify({ draft: { name: 'New', source: 'shop', sql: text }, parts: ['people'] }),
      ...(signal ? { signal } : {}),
    });
  const large: Json = await (
    await sql("select 'u' || i || repeat('x', 500) as user_id from range(20000000) as t(i)")
  ).json();
  t.match(large.failure, { code: 'engine_failed', message: /Out of Memory/ });
  const client = new AbortController();
  const slow = "select 'u' as user_id from range(1000000000000) as t(i) where hash(i) = 42";
  const [first, second] = [sql(slow, client.signal), sql(slow, client.signal)];
  await until(async () =>
    (await service.json(`${V1}/audit?limit=2`)).data.every(({ outcome }: Json) => outcome === null),
  );
  client.abort();
  await Promise.all([t.rejects(first), t.rejects(second)]);
  t.match(await tried(service, { draft: { name: 'New', source: 'shop', sql: "select 'a' as user_id" } }), {
    people: { members: 1 },
  });
  await until(async () =>
    (await service.json(`${V1}/audit?limit=3`)).data
      .slice(1)
      .every(({ outcome }: Json) => outcome === 'request_timeout'),
  );
});
