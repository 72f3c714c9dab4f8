import type { Activity } from '../../../src/definition/definition.ts';
import { literal } from '../sql/plan-query.ts';
import type { DefinitionDialect } from './dialect.ts';
import { filterConditions } from './operators.ts';

/** The order of events: by time, then by receipt and id. */
export const inOrder = (direction: 'ASC' | 'DESC', { binary }: DefinitionDialect, of = '') =>
  `${of}"timestamp" ${direction}, ${of}received_at ${direction}, ${of}message_id${binary} ${direction}`;

/** The event's own id: the user id or, without one, the anonymous id. */
export const RAW_PERSON = 'user_id IS NULL AS is_anonymous, coalesce(user_id, anonymous_id) AS id';

/** Conditions on the columns of `tracks`. */
export function activityConditions({ event, within, since, where }: Activity, dialect: DefinitionDialect): string {
  const start = since === null ? [] : startingAt('>=', timestamp(since));
  const window = within === null ? [] : startingAt('>', `$now - INTERVAL '${within} milliseconds'`);
  return [
    `event = ${literal(event)}`,
    '"timestamp" <= $now',
    ...window,
    ...start,
    ...filterConditions(where, dialect),
  ].join('\n    AND ');
}

/** Also limits the day of receipt, by which the log is partitioned. An event is never later than its receipt. */
function startingAt(sign: string, instant: string): readonly string[] {
  return [`"timestamp" ${sign} ${instant}`, `day >= CAST(${instant} AS date)`];
}

function timestamp(at: number): string {
  return `TIMESTAMP '${new Date(at).toISOString().replace('T', ' ').replace('Z', '')}'`;
}

/**
 * Replaces (is_anonymous, id) of rows by the canonical user_id. Omits rows that belong to nobody.
 *
 * @param columns - columns to keep, such as `done.times`
 */
export function byPerson(rows: string, columns: readonly string[], { view }: DefinitionDialect): string {
  const person = 'coalesce(identities.user_id, done.id)';
  return `SELECT ${[`${person} AS user_id`, ...columns].join(', ')}
  FROM (${rows}) AS done
  LEFT JOIN ${view('identities')} AS identities
    ON identities.id = done.id AND identities.kind = CASE WHEN done.is_anonymous THEN 'anonymous' ELSE 'user' END
  WHERE done.id IS NOT NULL AND (identities.user_id IS NOT NULL OR NOT done.is_anonymous)`;
}
