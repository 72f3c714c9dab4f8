import type { Activity, PlaceFilter } from '../../../src/definition/definition.ts';
import { KIND_VIEWS } from '../../../src/definition/log-views.ts';
import { traitsIn } from '../../../src/definition/operators.ts';
import { literal } from '../sql/plan-query.ts';
import { ago, type DefinitionDialect } from './dialect.ts';
import { filterConditions } from './operators.ts';

/** The order of events: by time, then by receipt and id. */
export const inOrder = (direction: 'ASC' | 'DESC', { binary }: DefinitionDialect, of = '') =>
  `${of}"timestamp" ${direction}, ${of}received_at ${direction}, ${of}message_id${binary} ${direction}`;

/** The event's own id: the user id or, without one, the anonymous id. */
export const RAW_PERSON = 'user_id IS NULL AS is_anonymous, coalesce(user_id, anonymous_id) AS id';

/** A FROM item and a WHERE clause for the messages of an activity, with the columns of the log's views. */
export function fromActivity(activity: Activity, dialect: DefinitionDialect): string {
  const fixed: PlaceFilter[] = [];
  const personal: PlaceFilter[] = [];
  for (const filter of activity.where) (traitsIn([filter]).length === 0 ? fixed : personal).push(filter);
  const rows = `${dialect.view(KIND_VIEWS[activity.kind])} WHERE ${activityConditions(activity, fixed, dialect)}`;
  if (personal.length === 0) return `FROM ${rows}`;
  const traits = traitsIn(personal);
  const joins = traits.map(
    (trait, place) =>
      `LEFT JOIN (${latestTrait(trait, dialect)}) AS trait${place} ON trait${place}.user_id = person.user_id`,
  );
  const columns = ['message_id', ...traits.map((_, place) => `trait${place}.value AS trait${place}`)];
  const person = byPerson(`SELECT ${RAW_PERSON}, message_id FROM ${rows}`, ['done.message_id'], dialect);
  const traitOf = (trait: string) => `trait${traits.indexOf(trait)}`;
  return `FROM (SELECT * FROM ${rows}) AS activity
    JOIN (SELECT ${columns.join(', ')} FROM (${person}) AS person ${joins.join('\n    ')}) AS known USING (message_id)
    WHERE ${filterConditions(personal, dialect, traitOf).join(' AND ')}`;
}

/** A query for (user_id, value) of a trait: the latest `identify` that has it counts, since others leave it unchanged. */
export function latestTrait(trait: string, dialect: DefinitionDialect): string {
  const said = `SELECT ${RAW_PERSON}, ${dialect.at('traits', [trait])} AS value, "timestamp", received_at, message_id
    FROM ${dialect.view('identifies')}
    WHERE "timestamp" <= $now AND ${dialect.at('traits', [trait])} IS NOT NULL`;
  const columns = ['done.value', 'done."timestamp"', 'done.received_at', 'done.message_id'];
  return `SELECT DISTINCT ON (user_id) user_id, value
    FROM (${byPerson(said, columns, dialect)}) AS people
    ORDER BY user_id, ${inOrder('DESC', dialect)}`;
}

/** Conditions on the columns of a view. */
function activityConditions(
  { kind, names, within, until, since }: Activity,
  where: readonly PlaceFilter[],
  dialect: DefinitionDialect,
): string {
  const column = kind === 'track' ? 'event' : 'name';
  const among = (all: readonly string[]) => (all.length === 1 ? `= ${all[0]}` : `IN (${all.join(', ')})`);
  const named = names === null ? [] : [`${column} ${among(names.map(literal))}`];
  const start = since === null ? [] : startingAt('>=', timestamp(since));
  const window = within === null ? [] : startingAt('>', ago(within));
  return [
    ...named,
    `"timestamp" <= ${until === 0 ? '$now' : ago(until)}`,
    ...window,
    ...start,
    ...filterConditions(where, dialect),
  ].join('\n    AND ');
}

/** Also limits the day of receipt, by which the log is partitioned. An event is never later than its receipt. */
function startingAt(sign: string, instant: string): readonly string[] {
  return [`"timestamp" ${sign} ${instant}`, `day >= CAST(${instant} AS date)`];
}

export function timestamp(at: number): string {
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

/** A query for (user_id, done_at) of the messages of an activity, with the columns named. */
export function messagesOf(activity: Activity, dialect: DefinitionDialect, columns: readonly string[] = []): string {
  const names = ['"timestamp" AS done_at', ...columns].join(', ');
  const done = `SELECT ${RAW_PERSON}, ${names} ${fromActivity(activity, dialect)}`;
  return byPerson(done, ['done.done_at', ...columns.map((name) => `done.${name}`)], dialect);
}
