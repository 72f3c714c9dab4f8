import { type Condition, type Formula, factsOf, mayHoldForAll } from '../../../src/definition/conditions.ts';
import type { Split } from '../../../src/definition/definition.ts';
import { literal } from '../sql/plan-query.ts';
import type { DefinitionDialect } from './dialect.ts';
import { computedQuery, factQuery, type NamedSql, peopleQuery } from './facts.ts';

/**
 * A query for the people for whom a condition holds. It reads the people of each fact once and groups them by person.
 * It reads other people only if the condition can hold for somebody of whom no fact is true.
 */
export function conditionQuery(condition: Condition, named: NamedSql, dialect: DefinitionDialect): string {
  const split = factsOf(condition);
  const { facts, formula } = split;
  const queries = facts.map((fact) => (fact.kind === 'split' ? null : factQuery(fact, named, dialect)));
  const only = 'fact' in formula ? queries[formula.fact] : null;
  if (only) return only;
  const factRows = queries.flatMap((query, place) =>
    query === null ? [] : `SELECT user_id, ${place} AS fact FROM (\n${query}\n) AS fact${place}`,
  );
  // The log may not know those who have a computed value.
  const valued = facts.flatMap((fact) => (fact.kind === 'computed' ? computedQuery(fact.place, named, dialect) : []));
  const everybody = [peopleQuery(dialect), ...valued].map(
    (query) => `SELECT user_id, ${queries.length} AS fact FROM (\n${query}\n) AS everybody`,
  );
  const rows = mayHoldForAll(split) ? [...factRows, ...everybody] : factRows;
  const flags = facts.map((fact, place) =>
    fact.kind === 'split'
      ? `${splitCondition(fact.split, dialect)} AS fact${place}`
      : `bool_or(fact = ${place}) AS fact${place}`,
  );
  return `SELECT user_id FROM (
SELECT ${['user_id', ...flags].join(', ')} FROM (
${rows.join('\nUNION ALL\n')}
) AS facts GROUP BY user_id) AS people
WHERE ${formulaCondition(formula)}`;
}

function splitCondition({ name, from, to }: Split, dialect: DefinitionDialect): string {
  const bucket = dialect.bucket(`concat(${literal(`${name}:`)}, user_id)`);
  return `(${bucket} >= ${from} AND ${bucket} < ${to})`;
}

function formulaCondition(formula: Formula): string {
  if ('all' in formula) return `(${formula.all.map(formulaCondition).join(' AND ')})`;
  if ('any' in formula) return `(${formula.any.map(formulaCondition).join(' OR ')})`;
  if ('not' in formula) return `NOT ${formulaCondition(formula.not)}`;
  return `fact${formula.fact}`;
}
