import t, { type Test } from 'tap';
import { singleStatement } from '../../jobs/engines/sql/statement.ts';
import type { Config } from '../../src/config/config.ts';
import type { Condition } from '../../src/definition/conditions.ts';
import { configured, definitionOf, sqlFor } from './helpers/configured.ts';
import { type LogEngine, openEngines } from './helpers/engines.ts';
import { membersOf, valuesOf } from './helpers/reference.ts';
import type { Scenario, Step } from './helpers/scenario.ts';
import { counts, filters, windows } from './scenarios/activity.ts';
import { identities, lives, logic, traits } from './scenarios/people.ts';
import { firsts, sequences, times } from './scenarios/sequences.ts';
import { traitValues } from './scenarios/values.ts';

const groups = {
  windows,
  counts,
  filters,
  traits,
  logic,
  identities,
  lives,
  sequences,
  firsts,
  times,
  values: traitValues,
};

t.test('computes every scenario alike on both engines and by the law', async (t) => {
  const engines = await openEngines(t);
  const scenarios = Object.values(groups).flat();
  t.ok(scenarios.length >= 80, `${scenarios.length} scenarios`);
  const names = scenarios.map(({ name }) => name);
  t.same(names, [...new Set(names)], 'each has a name of its own');
  for (const [group, all] of Object.entries(groups)) {
    await t.test(group, async (t) => {
      for (const scenario of all) await check(scenario, engines, t);
    });
  }
});

async function check({ name, steps, others }: Scenario, engines: readonly LogEngine[], t: Test): Promise<void> {
  for (const [index, step] of steps.entries()) {
    const config = configured(step.definition, others);
    const { kind } = definitionOf(config);
    const title = steps.length > 1 ? `${name}: step ${index + 1}` : name;
    t.same(byLaw(config, step, await idsOf(others, engines)), step.result, `${title}, by the law`);
    for (const engine of engines) {
      await engine.fill(step.events);
      const result = await engine.result(kind, sqlFor(engine.type, config), step.now);
      t.strictSame(
        kind === 'audience' ? Object.keys(result).toSorted() : result,
        step.result,
        `${title}, ${engine.type}`,
      );
    }
  }
}

function byLaw(config: Config, { events, now }: Step, ids: ReadonlyMap<string, ReadonlySet<string>>) {
  const definition = definitionOf(config);
  const short = config.audiences.flatMap(({ key, when }) => (when ? [[key, when] as const] : []));
  const audiences = new Map<string, Condition | ReadonlySet<string>>([...short, ...ids]);
  const history = { events, now, audiences };
  if (definition.kind === 'trait') return definition.value && valuesOf(definition.value, history);
  return definition.when && membersOf(definition.when, history);
}

/** The rows of audiences by SQL: none of them reads the log here. */
async function idsOf(others: Scenario['others'], [engine]: readonly LogEngine[]) {
  const found = Object.entries(others).map(async ([key, other]) => {
    if (!('sql' in other) || !engine) return [];
    const rows = await engine.session.rows(singleStatement(other.sql));
    return [[key, new Set(rows.flatMap(([id]) => (id === null ? [] : [String(id)])))] as const];
  });
  return new Map((await Promise.all(found)).flat());
}
