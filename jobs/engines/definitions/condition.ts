import {
  type Condition,
  type Facts,
  type Formula,
  factsOf,
  mayHoldForAll,
} from '../../../src/definition/conditions.ts';
import type { Split } from '../../../src/definition/definition.ts';
import { literal } from '../sql/plan-query.ts';
import type { DefinitionDialect } from './dialect.ts';
import { computedQuery, factQuery, type NamedSql, peopleQuery } from './facts.ts';
import { sequenceQuery } from './sequence.ts';

/**
 * A query for the people for whom a condition holds. It reads the people of each fact once and groups them by person.
 * It reads other people only if the condition can hold for somebody of whom no fact is true.
 */
export function conditionQuery(condition: Condition, named: NamedSql, dialect: DefinitionDialect): string {
  const split = factsOf(condition);
  const { facts, formula } = split;
  const only = 'fact' in formula ? facts[formula.fact] : undefined;
  if (only && only.kind !== 'split') return factQuery(only, named, dialect);
  return `SELECT user_id FROM (\n${flaggedPeople(split, named, dialect)}\n) AS people
WHERE ${formulaCondition(formula)}`;
}

/** The name of a column that says if somebody did the steps of a sequence until this one. */
export const stepFlag = (fact: number, step: number) => `fact${fact}_${step}`;

/** A query for people (unique user_id) with a column for each fact. @param hasSteps - also for each step of sequences */
export function flaggedPeople(split: Facts, named: NamedSql, dialect: DefinitionDialect, hasSteps = false): string {
  const { facts } = split;
  const names = facts.map((_, place) => `fact${place}`);
  const rows = facts.flatMap((fact, place) => {
    if (fact.kind === 'split') return [];
    if (fact.kind !== 'sequence' || !hasSteps)
      return `SELECT user_id, ${place} AS fact FROM (\n${factQuery(fact, named, dialect)}\n) AS fact${place}`;
    const first = names.length;
    names.push(...fact.sequence.steps.map((_, step) => stepFlag(place, step)));
    return `SELECT user_id, fact FROM (\n${sequenceQuery(fact.sequence, dialect, { place, first })}\n) AS fact${place}`;
  });
  if (mayHoldForAll(split)) {
    // The log may not know those who have a computed value.
    const valued = facts.flatMap((fact) => (fact.kind === 'computed' ? computedQuery(fact.place, named, dialect) : []));
    for (const query of [peopleQuery(dialect), ...valued])
      rows.push(`SELECT user_id, ${names.length} AS fact FROM (\n${query}\n) AS everybody`);
  }
  const flags = names.map((name, place) => {
    const fact = facts[place];
    return `${fact?.kind === 'split' ? splitCondition(fact.split, dialect) : `bool_or(fact = ${place})`} AS ${name}`;
  });
  return `SELECT ${['user_id', ...flags].join(', ')} FROM (
${rows.join('\nUNION ALL\n')}
) AS facts GROUP BY user_id`;
}

function splitCondition({ name, from, to }: Split, dialect: DefinitionDialect): string {
  const bucket = dialect.bucket(`concat(${literal(`${name}:`)}, user_id)`);
  return `(${bucket} >= ${from} AND ${bucket} < ${to})`;
}

/** A condition over the columns of facts. */
export function formulaCondition(formula: Formula): string {
  if ('all' in formula) return `(${formula.all.map(formulaCondition).join(' AND ') || 'TRUE'})`;
  if ('any' in formula) return `(${formula.any.map(formulaCondition).join(' OR ')})`;
  if ('not' in formula) return `NOT ${formulaCondition(formula.not)}`;
  return `fact${formula.fact}`;
}
