import { type Condition, type Formula, factsOf, holds } from '../../../src/definition/conditions.ts';
import type { DefinitionDialect } from './dialect.ts';
import { type AudienceSql, factQuery, peopleQuery } from './facts.ts';

/**
 * A query for the people for whom a condition holds. It reads the people of each fact once and groups them by person.
 * It reads other people only if the condition can hold for somebody of whom no fact is true.
 */
export function conditionQuery(condition: Condition, audience: AudienceSql, dialect: DefinitionDialect): string {
  const { facts, formula } = factsOf(condition);
  const queries = facts.map((fact) => factQuery(fact, audience, dialect));
  if ('fact' in formula) return queries[formula.fact] ?? '';
  const factRows = queries.map(
    (query, place) => `SELECT user_id, ${place} AS fact FROM (\n${query}\n) AS fact${place}`,
  );
  const everybody = `SELECT user_id, ${queries.length} AS fact FROM (\n${peopleQuery(dialect)}\n) AS everybody`;
  const rows = holds(formula, () => false) ? [...factRows, everybody] : factRows;
  const flags = facts.map((_, place) => `bool_or(fact = ${place}) AS fact${place}`);
  return `SELECT user_id FROM (
SELECT ${['user_id', ...flags].join(', ')} FROM (
${rows.join('\nUNION ALL\n')}
) AS facts GROUP BY user_id) AS people
WHERE ${formulaCondition(formula)}`;
}

function formulaCondition(formula: Formula): string {
  if ('all' in formula) return `(${formula.all.map(formulaCondition).join(' AND ')})`;
  if ('any' in formula) return `(${formula.any.map(formulaCondition).join(' OR ')})`;
  if ('not' in formula) return `NOT ${formulaCondition(formula.not)}`;
  return `fact${formula.fact}`;
}
