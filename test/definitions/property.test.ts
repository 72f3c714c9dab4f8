import fc from 'fast-check';
import t from 'tap';
import { compile, compileCounted } from '../../jobs/engines/definitions/compile.ts';
import { FUNNEL_TABLE } from '../../jobs/engines/sql/tables.ts';
import type { Condition } from '../../src/definition/conditions.ts';
import {
  commits,
  conditions,
  histories,
  moments,
  SCORE,
  shortAudience,
  valueDefinitions,
} from './helpers/arbitrary.ts';
import { openEngines } from './helpers/engines.ts';
import { membersOf, valuesOf } from './helpers/reference.ts';

/** Histories; each is asked several definitions. DEFINITION_RUNS makes it longer. */
const RUNS = Number(process.env['DEFINITION_RUNS'] ?? 12);

const LISTED = "select 'a' as user_id union all select 'outside'";

t.test('computes random definitions over random histories as the law says, on both engines', async (t) => {
  const engines = await openEngines(t);
  let triples = 0;
  let found = 0;
  const asked = fc.record({
    events: histories,
    now: moments,
    short: shortAudience,
    committed: fc.option(commits),
    whens: fc.array(conditions, { minLength: 4, maxLength: 4 }),
    values: fc.array(valueDefinitions, { minLength: 3, maxLength: 3 }),
  });
  const property = fc.asyncProperty(asked, async ({ events, now, short, committed, whens, values }) => {
    const audiences = new Map<string, Condition | ReadonlySet<string>>([
      ['listed', new Set(['a', 'outside'])],
      ['short', short],
    ]);
    const history = { events, now, audiences, committed: { [SCORE.key]: committed ?? {} } };
    const other = (key: string) => (key === 'short' ? { when: short } : { sql: LISTED });
    for (const { type, fill, commit, result } of engines) {
      await fill(events);
      await commit(SCORE.key, committed);
      for (const when of whens) {
        const members = Object.keys(await result('audience', compile({ when }, type, other), now)).toSorted();
        const expected = membersOf(when, history);
        same(members, expected, type);
        // A plan finds the people once, for the definition and for its counts.
        const { funnel } = compileCounted(when, false, type, other);
        const taken = funnel.sql.replace(FUNNEL_TABLE, (name) => `(\n${funnel.people}\n) AS ${name}`);
        if (when === whens[0]) same(Object.keys(await result('audience', taken, now)).toSorted(), expected, type);
        triples += 5;
        found += expected.length;
      }
      for (const value of values) {
        const expected = valuesOf(value, history);
        same(await result('trait', compile({ value }, type, other), now), expected, type);
        triples += 5;
        found += Object.keys(expected).length;
      }
    }
  });
  await fc.assert(property, { numRuns: RUNS });
  t.ok(found > 0, `${triples} answers about persons, ${found} of them members or values`);
});

function same(actual: unknown, expected: unknown, type: string): void {
  const [one, other] = [canonical(actual), canonical(expected)];
  if (one !== other) throw new Error(`${type} says ${one}, the law ${other}`);
}

/** Objects whatever the order of their keys. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return JSON.stringify(value);
  return JSON.stringify(Object.entries(value as object).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
