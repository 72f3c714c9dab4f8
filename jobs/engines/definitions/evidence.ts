import { type Condition, pathOf, type singlesIn } from '../../../src/definition/conditions.ts';
import type { Activity } from '../../../src/definition/definition.ts';
import type { KeyPath } from '../../../src/definition/places.ts';
import { literal } from '../sql/plan-query.ts';
import { SAMPLE_TABLE } from '../sql/tables.ts';
import { latestTrait, messagesOf } from './activity.ts';
import type { DefinitionDialect } from './dialect.ts';
import { computedQuery, type NamedSql } from './facts.ts';

/** Evidence that a person passes a condition: how often they did it and when last, or the value that they have. */
export interface Evidence {
  /** The path of the condition, or of the step of a sequence. */
  readonly path: string;
  readonly times: number | null;
  /** Milliseconds since 1970. */
  readonly last: number | null;
  /** JSON text. */
  readonly value: string | null;
}

/** A query for (user_id, path, times, last, value) of the people in `SAMPLE_TABLE`. */
export function evidenceQuery(
  singles: ReturnType<typeof singlesIn>,
  named: NamedSql,
  dialect: DefinitionDialect,
): string {
  const queries = singles.flatMap(({ path, single }) => queriesOf(single, `when${pathOf(path)}`, named, dialect));
  return queries.join('\nUNION ALL\n') || nothing;
}

const isSampled = `WHERE user_id IN (SELECT user_id FROM ${SAMPLE_TABLE})`;
const NO_VALUE = 'CAST(NULL AS varchar)';
const nothing = `SELECT user_id, '' AS path, 0 AS times, 0 AS last, ${NO_VALUE} AS value FROM ${SAMPLE_TABLE} WHERE FALSE`;

function queriesOf(single: Condition, path: string, named: NamedSql, dialect: DefinitionDialect): readonly string[] {
  const did = (activity: Activity, place: string) =>
    `SELECT user_id, ${literal(place)} AS path, count(*) AS times, ${dialect.millis('max(done_at)')} AS last, ${NO_VALUE} AS value
    FROM (${messagesOf(activity, dialect)}) AS done ${isSampled} GROUP BY user_id`;
  const has = (values: string, rest: KeyPath) => {
    const value = rest.length === 0 ? 'value' : dialect.at('value', rest);
    return `SELECT user_id, ${literal(path)} AS path, 0 AS times, 0 AS last, CAST(${value} AS varchar) AS value
    FROM (${values}) AS valued ${isSampled}`;
  };
  if ('performed' in single) return [did(single.performed, path)];
  if ('firstTime' in single) return [did(single.firstTime, path)];
  if ('sequence' in single)
    return single.sequence.steps.map(({ activity }, step) => did(activity, `${path}.sequence[${step}]`));
  if ('computed' in single) return [has(computedQuery(single.computed, named, dialect), [])];
  if (!('trait' in single)) return [];
  const [trait = '', ...rest] = single.trait;
  return [has(latestTrait(trait, dialect), rest)];
}

/** The evidence of each person, from the rows of that query. */
export function readEvidence(rows: readonly (readonly unknown[])[]): ReadonlyMap<string, readonly Evidence[]> {
  const people = Map.groupBy(rows, ([user]) => String(user));
  const read = ([, path, times, last, value]: readonly unknown[]): Evidence => {
    const count = Number(times);
    return {
      path: String(path),
      ...(count > 0 ? { times: count, last: Number(last) } : { times: null, last: null }),
      value: value === null ? null : String(value),
    };
  };
  return new Map([...people].map(([user, own]) => [user, own.map(read)]));
}
