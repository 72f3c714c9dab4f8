import { statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/kernel/clock.ts';
import type { LiveState } from '../../../src/store/live.ts';
import type { RunFilter } from '../../../src/store/port.ts';
import { prunableRegulations, prunableRuns } from '../../../src/store/records/prune-records.ts';
import { runsQuery } from '../../../src/store/records/runs.ts';
import { performShared, sharedPorts } from '../../../src/store/shared-ports.ts';
import type { Connection } from '../../../src/store/sqlite/connection.ts';
import { SQLITE, SqliteSession, textOf } from '../../../src/store/sqlite/session.ts';
import { openSqliteStore } from '../../../src/store/sqlite/store.ts';
import { accept, backlogOf, claim, codeOf, DELIVERED, message, settle } from '../../contract/store-fixture.ts';
import { GROWING, LOOKS } from '../looks.ts';

async function open(t: Test) {
  const path = join(t.testdir({}), 'store.db');
  const store = await openSqliteStore({ path, maxQueued: 100_000, clock: systemClock });
  t.teardown(() => store.close());
  return { store, path };
}

t.test('reports a lock that another process holds too long, and recovers', async (t) => {
  const { store, path } = await open(t);
  await accept(store, message());
  const other = new DatabaseSync(path);
  other.exec('BEGIN IMMEDIATE');
  const blocked = codeOf(accept(store, message()));
  t.equal(await blocked, 'store_busy');
  other.exec('ROLLBACK');
  other.close();
  await accept(store, message());
  t.same(await backlogOf(store), { pending: 2, dead: 0 });
});

t.test('limits a claim of long bodies, and reports that more are due', async (t) => {
  const store = await openSqliteStore({ path: ':memory:', maxQueued: 1_000, clock: systemClock });
  t.teardown(() => store.close());
  const body = JSON.stringify('x'.repeat(100_000));
  await accept(store, ...Array.from({ length: 300 }, () => message({ body })));
  const owner = await store.join(60_000);
  const request = (destination: string) => ({ destination, limit: 500, order: 'usual' }) as const;
  const first = await store.claim(owner, [request('crm'), request('erp')]);
  t.same(
    first.claims.map(({ length }) => length),
    [256, 0],
  );
  t.ok((first.nextDue.get('crm') ?? Number.POSITIVE_INFINITY) <= store.time.now());
  const second = await store.claim(owner, [request('crm')]);
  t.equal(second.claims[0]?.length, 44);
  t.equal(second.nextDue.get('crm'), null);
});

t.test('becomes smaller by VACUUM while nobody has it open, and starts again', async (t) => {
  const { store, path } = await open(t);
  const body = JSON.stringify({ text: 'x'.repeat(20_000) });
  await accept(store, ...Array.from({ length: 300 }, () => message({ body })));
  const owner = await store.join(60_000);
  for (;;) {
    const claims = await claim(store, owner);
    if (claims.length === 0) break;
    await settle(store, owner, claims, DELIVERED);
  }
  await accept(store, message());
  await store.close();
  const { size } = statSync(path);
  const database = new DatabaseSync(path);
  database.exec('VACUUM');
  database.close();
  t.ok(statSync(path).size < size / 4, `${size} to ${statSync(path).size} bytes`);
  const again = await openSqliteStore({ path, maxQueued: 100_000, clock: systemClock });
  t.teardown(() => again.close());
  t.same(await backlogOf(again), { pending: 1, dead: 0 });
  t.equal(await again.check(true), null);
});

t.test('finds rows by an index in everyday statements', async (t) => {
  const { store, path } = await open(t);
  await accept(store, message());
  await claim(store, await store.join(20_000));
  const database = new DatabaseSync(path);
  const plan = (sql: string) =>
    database
      .prepare(`EXPLAIN QUERY PLAN ${sql}`)
      .all()
      .map(({ detail }) => String(detail))
      // Says only that what follows is done for each row.
      .filter((step) => !/^CORRELATED SCALAR SUBQUERY \d+$/.test(step));
  const runs = (filter: Omit<RunFilter, 'limit'>) => textOf(runsQuery(SQLITE, { ...filter, limit: 9 }));
  const records = [prunableRuns(SQLITE, 5, 9), prunableRegulations(SQLITE, 5, 9)]
    .map(textOf)
    .concat(runs({ key: 'k' }));
  const listings = [runs({}), runs({ states: ['held'] })];
  const statements = [
    ...records,
    `SELECT id FROM delivery INDEXED BY delivery_ready
     WHERE state = 0 AND destination = 1 AND (tries > 0) = 0 AND lane = 1 AND due_at <= 5 ORDER BY due_at LIMIT 10`,
    `SELECT id FROM delivery INDEXED BY delivery_claimed WHERE state = 1 AND owner = 1`,
    `SELECT id, state, run, tries FROM delivery WHERE conflict = 'k' AND destination = 1`,
    `DELETE FROM dead_letter WHERE conflict = 'k' AND destination = 1`,
    `DELETE FROM delivery WHERE id = 1 AND owner = 1`,
  ];
  for (const sql of statements) {
    const steps = plan(sql);
    t.ok(steps.length > 0 && steps.every((step) => /^SEARCH .* USING/.test(step)), steps.join('; '));
  }
  // These stop at their limit, or look at what is unfinished only; the newest come first without being sorted.
  for (const sql of listings) t.match(plan(sql)[0], /^SCAN run( USING INDEX run_open)?$/);
  for (const sql of [...records, runs({}), runs({ key: 'k', states: ['done'] })]) {
    t.notOk(
      plan(sql).some((step) => step.includes('TEMP B-TREE FOR ORDER BY')),
      sql,
    );
  }
  database.close();
});

t.test('serves pages and metrics without scanning a growing table', async (t) => {
  const { store, path } = await open(t);
  await accept(store, message());
  await store.close();
  const database = new DatabaseSync(path, { readOnly: true });
  const steps: string[] = [];
  const session = new SqliteSession(
    connectionThat(database, (step) => steps.push(step)),
    0,
  );
  const { records } = sharedPorts((call) => performShared(session, call));
  for (const [name, look] of Object.entries(LOOKS)) {
    steps.length = 0;
    await look(records);
    t.ok(steps.length > 0, name);
    const scan = new RegExp(`^SCAN (${GROWING.join('|')})(?! USING)`);
    t.same(
      // Runs are read in the order of their primary key, up to a limit.
      steps.filter((step) => scan.test(step) && !(name === 'runs' && step === 'SCAN run')),
      [],
      name,
    );
  }
  database.close();
});

/** Statements of a step of the live computation, and what people ask of one member. */
const LIVE_LOOKS: Readonly<Record<string, (live: LiveState) => Promise<unknown>>> = {
  rowsOfIds: (live) => live.rowsOfIds(1, ['u:ann']),
  rowsOfPersons: (live) => live.rowsOfPersons(1, ['ann']),
  rowsAround: (live) => live.rowsAround(1, ['u:ann'], false),
  'rowsAround, lean': (live) => live.rowsAround(1, ['u:ann'], true),
  membersOf: (live) => live.membersOf(['ann'], ['vips', 'buyers']),
  strayMembers: (live) => live.strayMembers(1, 'vips', 'ann', 10),
  personsDue: (live) => live.personsDue(1, 5, 10),
  idsOlderThan: (live) => live.idsOlderThan(1, 5, 10),
  pastValues: (live) => live.pastValues('vips', 'ann'),
  causesOf: (live) => live.causesOf('vips', 'ann'),
};

t.test('reads only one person, not a whole state or audience, for a person in live audiences', async (t) => {
  const { path } = await open(t);
  const database = new DatabaseSync(path);
  const steps: string[] = [];
  const session = new SqliteSession(
    connectionThat(database, (step) => steps.push(step)),
    0,
  );
  const { live } = sharedPorts((call) => performShared(session, call));
  for (const [name, look] of Object.entries(LIVE_LOOKS)) {
    steps.length = 0;
    await look(live);
    t.ok(steps.length > 0, name);
    const wide = steps.filter((step) => /^SCAN live_|\((state|key)=\?\)/.test(step));
    t.same(wide, [], name);
  }
  database.close();
});

/** A connection that says how it would find what it reads. */
function connectionThat(database: DatabaseSync, say: (step: string) => void): Connection {
  const tuples = (sql: string, ...values: SQLInputValue[]) => {
    // In the order of ids it stops at its limit.
    const isBounded = /ORDER BY id (DESC )?LIMIT/.test(sql);
    for (const { detail } of database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values))
      say(`${detail}${isBounded ? ' USING the limit' : ''}`);
    const statement = database.prepare(sql);
    statement.setReturnArrays(true);
    return statement.all(...values);
  };
  return { tuples, meta: () => '' } as Pick<Connection, 'tuples' | 'meta'> as Connection;
}
