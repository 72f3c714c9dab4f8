import type { Condition } from '../../../src/definition/conditions.ts';
import { literal } from '../sql/plan-query.ts';
import { conditionQuery } from './condition.ts';
import type { DefinitionDialect } from './dialect.ts';
import { type NamedSql, peopleQuery } from './facts.ts';

/** Ids that the query returns, other than the places of conditions. */
export const SEEN = 'seen';
export const FORMER = 'former:';
/** Before the place of a condition that holds: `0` alone would be an id that means nobody. */
export const HOLDS = 'holds:';

/** A query for the places of those conditions that hold for a user, for SEEN, and for the current id of a former one. */
export function absenceQuery(
  user: string,
  conditions: readonly Condition[],
  named: NamedSql,
  dialect: DefinitionDialect,
): string {
  const isUser = `WHERE user_id = ${literal(user)}`;
  const holding = conditions.map(
    (condition, place) =>
      `SELECT '${HOLDS}${place}' AS user_id FROM (\n${conditionQuery(condition, named, dialect)}\n) AS holding ${isUser}`,
  );
  return [
    `SELECT '${SEEN}' AS user_id FROM (\n${peopleQuery(dialect)}\n) AS people ${isUser}`,
    `SELECT concat('${FORMER}', user_id) AS user_id FROM ${dialect.view('identities')}
      WHERE kind = 'user' AND id = ${literal(user)} AND user_id <> ${literal(user)}`,
    ...holding,
  ].join('\nUNION ALL\n');
}
