import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { openDuckdb } from '../../jobs/engines/duckdb/duckdb.ts';
import type { Action, Engine, StageRequest } from '../../jobs/engines/port.ts';
import { openPostgres } from '../../jobs/engines/postgres/postgres.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { request, told } from '../contract/engine.ts';
import { openInParts } from '../contract/in-parts.ts';
import { startFastPostgres } from '../helpers/postgres.ts';

const users = fc.array(fc.constantFrom('a', 'A', '1', '01', 'é', 'e\u0301', "o'x", ' ', '', 'zz', '~', null), {
  maxLength: 8,
});
const scores = fc.array(fc.constantFrom(null, -1, 0, 1, 2.5), { minLength: 8, maxLength: 8 });
const step = fc.record({
  users,
  scores,
  action: fc.constantFrom<Action>('sync', 'sync', 'sync', 'resync', 'backfill', 'retire'),
  leavers: fc.boolean(),
  isCommitted: fc.boolean(),
  forgets: fc.option(fc.constantFrom('a', '1', 'zz'), { freq: 5 }),
});

/** What comes of the same rows. */
const DEFINITIONS: Readonly<Record<string, Partial<StageRequest>>> = {
  plain: { kind: 'audience' },
  trait: { kind: 'trait' },
  columns: { kind: 'audience', with: { names: ['score'], areSent: true } },
  silent: { kind: 'audience', with: { names: ['score'], areSent: false } },
};

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

function sqlOf({ users, scores }: Step): string {
  const rows = users.map((user, index) => {
    const id = user === null ? 'null' : `'${user.replaceAll("'", "''")}'`;
    return `select cast(${id} as varchar) as user_id, cast(${scores[index]} as double precision) as score`;
  });
  return rows.join(' union all ') || "select cast('x' as varchar) as user_id, 1 as score where false";
}

/** One step on one engine: the plan's counts and rows, and the snapshot after it. */
async function take(engine: Engine, made: StageRequest, { isCommitted, forgets }: Step) {
  const staged = await engine.stage(made);
  if (forgets !== null) await engine.forget([forgets]);
  const batch = await engine.changes(staged.plan, 0, 1000);
  if (isCommitted) await engine.commit(staged.plan);
  await engine.discard(staged.plan);
  const snapshot = await engine.snapshot(made.key);
  const standings = await engine.lookup(made.key, ['a', 'A', '1', '01', 'é', "o'x", 'zz', '~']);
  const read = [...standings].map(([user, standing]) => {
    const value = standing.value === null ? null : JSON.parse(standing.value);
    return [user, { ...standing, value }] as const;
  });
  const positions = batch.positions.every((n, place) => n > (batch.positions[place - 1] ?? 0));
  const changes = told(batch).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return { staged, changes, positions, snapshot, standings: read.toSorted(([a], [b]) => (a < b ? -1 : 1)) };
}

t.test('gives identical plans and snapshots on all engines, also in parts, for random histories', async (t) => {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const postgres = await openPostgres({ type: 'postgres', url: await server.database() });
  t.teardown(() => postgres.close());
  const memory = { type: 'duckdb', path: ':memory:', memoryLimit: null, threads: 1 } as const;
  const duckdb = await openDuckdb(memory, { folder: t.testdirName, clock: systemClock });
  t.teardown(() => duckdb.close());
  const inParts = await openInParts(':memory:');
  t.teardown(() => inParts.close());
  let histories = 0;
  const history = async (steps: readonly Step[]) => {
    histories += 1;
    for (const [name, definition] of Object.entries(DEFINITIONS)) {
      const key = `${name}_${histories}`;
      for (const each of steps) {
        const { version } = await duckdb.snapshot(key);
        const made = request({
          key,
          ...definition,
          action: each.action,
          leavers: each.leavers,
          toVersion: version + 1,
          sql: sqlOf(each),
        });
        const expected = await take(duckdb, made, each);
        assert.deepEqual(await take(postgres, made, each), expected);
        assert.deepEqual(await take(inParts, made, each), expected);
      }
      // To forget somebody takes as long as there are snapshots.
      for (const engine of [duckdb, postgres, inParts]) await engine.drop(key);
    }
  };
  await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 5 }), history), {
    numRuns: Number(process.env['PROPERTY_RUNS'] ?? 15),
    // A history takes half a second: whoever waits for a smaller one might never see this one.
    endOnFailure: true,
  });
  t.ok(histories >= 1);
});
