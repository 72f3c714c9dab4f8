import { join } from 'node:path';
import t, { type Test } from 'tap';
import { withoutData } from '../../../jobs/engines/data-in-errors.ts';
import { openDuckdb } from '../../../jobs/engines/duckdb/duckdb.ts';
import { hidingValues } from '../../../jobs/engines/hidden-values.ts';
import type { Engine } from '../../../jobs/engines/port.ts';
import { openPostgres } from '../../../jobs/engines/postgres/postgres.ts';
import { systemClock } from '../../../src/kernel/clock.ts';
import { RollcallError } from '../../../src/kernel/errors.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';

const VICTIM = 'victim@example.com';
const NUMBER = '5000000000';

/** The text and causes of the error of SQL that fails. */
async function failureOf(engine: Engine, sql: string): Promise<string> {
  const definition = { key: 'vips', kind: 'audience', sql, asOf: 0 } as const;
  const request = { ...definition, action: 'sync', plan: 'p1', leasedAt: 0, toVersion: 1, leavers: false } as const;
  try {
    await engine.stage(request);
  } catch (error) {
    if (!(error instanceof RollcallError)) throw error;
    return `${error.message}\n${error.cause ?? ''}`;
  }
  throw new Error(`no error: ${sql}`);
}

async function hides(t: Test, engine: Engine, cases: readonly (readonly [sql: string, shown: RegExp])[]) {
  for (const [sql, shown] of cases) {
    const said = await failureOf(engine, sql);
    t.notMatch(said, VICTIM, sql);
    t.notMatch(said, NUMBER, sql);
    t.match(said, shown, sql);
  }
}

t.test('shows no value of a row in errors of DuckDB, but names, the line and the hint', async (t) => {
  const folder = t.testdir({
    'rows.csv': `id,n\n${VICTIM},5\nb,${VICTIM}\n`,
    'ragged.csv': `id,n\nb,1\n${VICTIM},5,6,7\n`,
  });
  const file = (name: string) => join(folder, name);
  const engine = hidingValues(
    await openDuckdb(
      { type: 'duckdb', path: ':memory:', memoryLimit: null, threads: 1 },
      { folder, clock: systemClock },
    ),
    new Map(),
  );
  t.teardown(() => engine.close());
  const people = `(select '${VICTIM.slice(0, 6)}' || '${VICTIM.slice(6)}' as id, 5 * 1000 * 1000 * 1000::bigint as n)`;
  await hides(t, engine, [
    [`select cast(id as integer) as user_id from ${people}`, /string '…' to INT32 .* column id\s+LINE \d+: /s],
    [`select id::date::text as user_id from ${people}`, /"…", expected format is \(YYYY-MM-DD\)/],
    [`select n::integer as user_id from ${people}`, /INT64 with value … can't be cast/],
    [`select (n * n * n)::text as user_id from ${people}`, /Overflow in multiplication of INT64 \(…\)/],
    [`select n::decimal(4,1)::text as user_id from ${people}`, /cast value … to DECIMAL/],
    [`select strptime(id, '%Y')::text as user_id from ${people}`, /string "…" according to format specifier "%Y"/],
    [`select ('{' || id)::json::text as user_id from ${people}`, /Malformed JSON/],
    [
      `select id || n as user_id from read_csv('${file('rows.csv')}', types = {'n': 'INTEGER'})`,
      /Line: 3.*column "n".*'INTEGER'/s,
    ],
    [
      `select id || n as user_id from read_csv('${file('ragged.csv')}', columns = {'id': 'VARCHAR', 'n': 'INTEGER'}, auto_detect = false, header = true)`,
      /Line: 3/,
    ],
    [`select customer as user_id from ${people}`, /"customer" not found .*Candidate bindings: "id"/s],
  ]);
});

t.test('shows no value of a row in errors of Postgres', async (t) => {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const engine = hidingValues(
    await openPostgres({ type: 'postgres', url: await server.database() }, { seesEvents: false, timeout: 60_000 }),
    new Map(),
  );
  t.teardown(() => engine.close());
  const people = `(select '${VICTIM.slice(0, 6)}' || '${VICTIM.slice(6)}' as id, 5 * 1000 * 1000 * 1000::bigint as n) as people`;
  await hides(t, engine, [
    [`select cast(id as integer)::text as user_id from ${people}`, /invalid input syntax for type integer: "…"/],
    [`select id::date::text as user_id from ${people}`, /invalid input syntax for type date: "…"/],
    [`select n::integer::text as user_id from ${people}`, /integer out of range/],
    [`select id::json::text as user_id from ${people}`, /invalid input syntax for type json/],
    [`select customer as user_id from ${people}`, /column "customer" does not exist/],
  ]);
});

t.test('hides what databases that are only read do not quote', (t) => {
  for (const [said, shown] of [
    [`Bad int64 value: ${VICTIM}`, 'Bad int64 value: …'],
    [`Bad double value: ${VICTIM}\n\nLINE 1: select`, 'Bad double value: …\n\nLINE 1: select'],
    [`int64 overflow: ${NUMBER} * ${NUMBER}`, 'int64 overflow: …'],
    [`Invalid date: '${VICTIM}'`, "Invalid date: '…'"],
    [`Value cannot be cast to date: a ${VICTIM}\nb`, 'Value cannot be cast to date: …'],
    [`Cannot cast value to UUID: ${VICTIM}`, 'Cannot cast value to UUID: …'],
    [`Out of range for integer: ${NUMBER}`, 'Out of range for integer: …'],
    [`Trino: Value cannot be cast to timestamp: ${VICTIM}.`, 'Trino: Value cannot be cast to timestamp: …'],
  ] as const)
    t.equal(withoutData(said, 'select 1'), shown);
  t.end();
});

t.test('keeps text without values as it is', async (t) => {
  const sql = `select 'it''s' as user_id from "orders 2026"`;
  for (const text of [
    `relation "orders 2026" does not exist`,
    `Table with name orders does not exist!\nDid you mean "customers"?`,
    `Can't open the file "/srv/orders.csv": it doesn't exist, isn't it?`,
    `delim=',' quote='"'`,
  ])
    t.equal(withoutData(text, sql), text);
  t.equal(withoutData(`string "O'Brien" and 'a "b" c'`, sql), `string "…" and '…'`);
});
