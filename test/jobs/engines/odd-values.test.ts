import t, { type Test } from 'tap';
import { openDuckdb } from '../../../jobs/engines/duckdb/duckdb.ts';
import { hidingValues } from '../../../jobs/engines/hidden-values.ts';
import type { Engine, StageRequest } from '../../../jobs/engines/port.ts';
import { openPostgres } from '../../../jobs/engines/postgres/postgres.ts';
import { systemClock } from '../../../src/kernel/clock.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';

type Opened = readonly (readonly ['duckdb' | 'postgres', Engine])[];

async function engines(t: Test): Promise<Opened> {
  const server = await startFastPostgres();
  const config = { memoryLimit: null, threads: 1, concurrency: 1 };
  const duckdb = await openDuckdb({ type: 'duckdb', path: ':memory:', ...config }, { folder: '/', clock: systemClock });
  const postgres = await openPostgres({ type: 'postgres', url: await server.database() });
  t.teardown(async () => {
    await Promise.all([duckdb.close(), postgres.close()]);
    await server.stop();
  });
  return [
    ['duckdb', duckdb],
    ['postgres', postgres],
  ];
}

let plans = 0;
async function stage(engine: Engine, key: string, sql: string, given: Partial<StageRequest> = {}) {
  plans += 1;
  const plan = `p${plans}`;
  const request = { plan, key, kind: 'trait', action: 'sync', sql, asOf: Date.parse('2026-03-01T12:00:00Z') } as const;
  const staged = await engine.stage({ ...request, toVersion: plans, leavers: false, leasedAt: plans, ...given });
  const { userIds, values } = await engine.changes(plan, 0, 10);
  return { ...staged, values: userIds.map((id, row) => [id, JSON.parse(values[row] ?? 'null')]) };
}

t.test('shows where a definition is wrong as its author wrote it', async (t) => {
  const faults: readonly (readonly [sql: string, line: string, column: string])[] = [
    ['select idd as user_id, 1 as v from (values (1)) users(id)', 'LINE 1: select idd as user_id', 'idd'],
    [
      'select id as user_id,\n  1 as v\n  from (values (1)) u(id) where $now > $now and iid = 3;',
      'LINE 3:   from (val',
      'iid',
    ],
    ["-- é 😀\nselect 'é😀' as user_id, nme as v", "LINE 2: select 'é😀' as user_id", 'nme'],
    ['selec 1', 'LINE 1: selec 1', '1'],
    ["select\t'e\u0301' as user_id,\tnme as v", "LINE 1: select 'e\u0301' as user_id, nme as v", 'nme'],
    ["select 'a' as user_id, 3 as v /* open", "LINE 1: select 'a' as user_id", '/* open'],
    [`select ${'1 + '.repeat(60)}1 as user_id, nme as v`, 'LINE 1: ...', 'nme'],
  ];
  for (const [name, engine] of await engines(t)) {
    for (const [sql, line, column] of faults) {
      for (const kind of ['audience', 'trait'] as const) {
        const { message } = (await stage(engine, 'k', sql, { kind }).catch((error) => error)) as Error;
        const [shown = '', caret = ''] = message.slice(message.indexOf('LINE ')).split('\n') ?? [];
        t.ok(shown.startsWith(line), `${name}, ${kind}: ${shown}`);
        t.ok([...shown].slice(caret.indexOf('^')).join('').startsWith(column), `${name}, ${kind}: ${caret}`);
      }
    }
  }
});

t.test('keeps the hints of Postgres, without values of variables', async (t) => {
  const [, [, engine]] = (await engines(t)) as [Opened[0], Opened[0]];
  const sql = "select idd as user_id from (values ('s3cret')) users(id)";
  const hint = /\nHINT: Perhaps you meant to reference the column "users.id"\./;
  await t.rejects(stage(engine, 'k', sql, { kind: 'audience' }), { message: hint });
  const hidden = hidingValues(engine, new Map([['s3cret', 'SECRET']]));
  const error = await stage(hidden, 'k', sql, { kind: 'audience' }).catch((error: Error) => error);
  t.match(error, { message: hint });
  t.notMatch(error, { message: /s3cret|LINE/ });
});

/** Both engines: the value that is sent, an error, or undefined for no row. */
const VALUES: readonly (readonly [sql: string, sent: unknown])[] = [
  ["select '\ufeffcem' as user_id, '\ufeffx' as v", ['\ufeffcem', { k: '\ufeffx' }]],
  ['select 123::decimal(38,0) as user_id, 1 as v', ['123', { k: 1 }]],
  ["select /* a /* b */ ; c */ 'a' as user_id, 1 as v; -- end", ['a', { k: 1 }]],
  ["select 'a' as user_id, timestamp '12026-01-01' as v", undefined],
  ["select 'a' as user_id, date '12026-01-01' as v", undefined],
  ["select 'a' as user_id, timestamp '9999-12-31 23:59:59.999' as v", ['a', { k: '9999-12-31T23:59:59.999Z' }]],
  ["select 'a' as user_id, 1.7976931348623157e308::double precision as v", undefined],
  ["select 'a' as user_id, repeat('x', 250001) as v", undefined],
  ["select 'a' as user_id, 1 as user_id_1", ['a', { k: 1 }]],
];
const FAULTS: readonly (readonly [sql: string, code: string, message: RegExp])[] = [
  ['select 1.5::double precision as user_id, 1 as v', 'column_type', /bigint or decimal\(38,0\)/],
  [`select '{"id":7}'::json -> 'id' as user_id, 1 as v`, 'column_type', /with ->> in place of ->/],
  [
    'select a.*, b.* from (select 1 as user_id, 2 as v) a, (select 1 as user_id, 3 as v) b',
    'column_repeated',
    /user_id, v/,
  ],
];

t.test('sends odd values alike from both engines, and says why it refuses others', async (t) => {
  for (const [name, engine] of await engines(t)) {
    for (const [sql, sent] of VALUES) t.same((await stage(engine, 'k', sql)).values[0], sent, `${name}: ${sql}`);
    for (const [sql, code, message] of FAULTS) await t.rejects(stage(engine, 'k', sql), { code, message }, name);
    const columns = Array.from({ length: 130 }, (_, index) => `${index} as c${index}`).join(', ');
    const [[, wide] = []] = (await stage(engine, 'k', `select 'a' as user_id, ${columns}`)).values;
    t.strictSame([Object.keys(wide).length, wide.c0, wide.c129], [130, 0, 129], `${name}: many columns`);
    if (name === 'duckdb') continue;
    t.same((await stage(engine, 'k', "select 'ab'::char(5) as user_id, 'cd'::char(5) as v")).values, [
      ['ab', { k: 'cd' }],
    ]);
    t.same((await stage(engine, 'k', "select 'a' as user_id, 10^400::numeric as v")).values, []);
  }
});

/** Values of a user in two runs, and whether the second one is sent. */
const PAIRS: readonly (readonly [one: string, other: string, isSent: boolean])[] = [
  ['5', '5.0::decimal(6,1)', false],
  ['1.05::decimal(6,2)', '1.5::decimal(6,2)', true],
  ['100', '10', true],
  ["'5.0'", "'5.00'", true],
  ['5', "'5'", true],
  ['1', 'true', true],
  [`'{"a":[1,"1"]}'::json`, `'{"a":[1.0,"1"]}'::json`, false],
  [`'{"a":1,"b":{"c":[{"x":1,"y":2}],"d":2}}'::json`, `'{"b":{"d":2.0,"c":[{"y":2,"x":1}]},"a":1}'::json`, false],
  [`'{"a":{"x":1},"b":{"x":2}}'::json`, `'{"a":{"x":2},"b":{"x":1}}'::json`, true],
  [`'{"a":[1,2]}'::json`, `'{"a":[2,1]}'::json`, true],
  [`'{"a":"}],","b":"{\\\\"}'::json`, `'{"b":"{\\\\","a":"}],"}'::json`, false],
  [`'{"a":"1,\\"b\\":2"}'::json`, `'{"a":"2,\\"b\\":1"}'::json`, true],
  [`'{"a":[],"b":{}}'::json`, `'{"b":[],"a":{}}'::json`, true],
  [`'{"a":"\\u0000"}'::json`, `'{"a":"\\u0000 "}'::json`, true],
  [`'{"a":1e5000}'::json`, `'{"a":1e5001}'::json`, true],
];

t.test('does not send a value again that is only written differently', async (t) => {
  for (const [name, engine] of await engines(t)) {
    for (const [index, [one, other, isSent]] of PAIRS.entries()) {
      const key = `pair_${index}`;
      const { plan } = await stage(engine, key, `select 'u' as user_id, ${one} as v`);
      await engine.commit(plan);
      const { changed } = await stage(engine, key, `select 'u' as user_id, ${other} as v`);
      t.equal(changed, Number(isSent), `${name}: ${one}, then ${other}`);
    }
  }
});

t.test('is not stopped by timeouts of a role, and says why a connection ended', async (t) => {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const url = await server.database();
  const sets = ['idle_session_timeout', 'idle_in_transaction_session_timeout'].map((name) => `-c ${name}=5000`);
  const role = `${url}?options=${encodeURIComponent(sets.join(' '))}`;
  const engine = await openPostgres({ type: 'postgres', url: role });
  for (const name of ['idle_session_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout']) {
    const { values } = await stage(
      engine,
      'k',
      `select 'a' as user_id, coalesce(current_setting('${name}', true), '0') as v`,
    );
    t.same(values, [['a', { k: '0' }]], name);
  }
  const other = await openPostgres({ type: 'postgres', url });
  const ending = `select 'a' as user_id, count(pg_terminate_backend(pid)) as v from pg_stat_activity
    where application_name = 'rollcall' and pid <> pg_backend_pid()`;
  await stage(other, 'k', ending);
  const lost = await (async () => {
    for (;;) {
      const error = await engine.snapshot('k').then(
        () => null,
        (error: Error) => error,
      );
      if (error) return error;
    }
  })();
  t.match(lost, { code: 'engine_unreachable', message: /terminating connection due to administrator command/ });
  await Promise.all([engine.close().catch(() => {}), other.close()]);
});
