export interface ViewDialect {
  /** Compares text by its bytes, whatever its collation. */
  readonly binary: string;
  /** Functions that make rows of an object's keys and values, and an object of rows. */
  readonly each: string;
  readonly object: string;
  readonly json: string;
  isNull(value: string): string;
}

/** Return a query for each person's (user_id, traits), with the last value of each trait. Null removes a trait. */
export function usersQuery(
  view: (name: string) => string,
  { binary, each, isNull, object, json }: ViewDialect,
): string {
  const person = (rows: string, columns: string) => `SELECT coalesce(known.user_id, seen.id) AS user_id${columns}
    FROM (${rows}) AS seen
    LEFT JOIN ${view('identities')} AS known
      ON known.id = seen.id AND known.kind = CASE WHEN seen.is_anonymous THEN 'anonymous' ELSE 'user' END
    WHERE seen.id IS NOT NULL AND (known.user_id IS NOT NULL OR NOT seen.is_anonymous)`;
  const ids = 'user_id IS NULL AS is_anonymous, coalesce(user_id, anonymous_id) AS id';
  const said = `SELECT ${ids}, key, value, "timestamp", received_at, message_id
      FROM ${view('identifies')} AS said CROSS JOIN LATERAL ${each}(said.traits) AS item`;
  return `WITH people AS (
    SELECT DISTINCT user_id FROM (${person(`SELECT DISTINCT ${ids} FROM ${view('events')}`, '')}) AS everybody
  ), latest AS (
    SELECT DISTINCT ON (user_id, key) user_id, key, value
    FROM (${person(said, ', seen.key, seen.value, seen."timestamp", seen.received_at, seen.message_id')}) AS all_traits
    ORDER BY user_id, key, "timestamp" DESC, received_at DESC, message_id${binary} DESC
  ), described AS (
    SELECT user_id, ${object}(key, value) AS traits FROM latest WHERE NOT ${isNull('value')} GROUP BY user_id
  )
  SELECT people.user_id, coalesce(described.traits, CAST('{}' AS ${json})) AS traits
  FROM people LEFT JOIN described ON described.user_id = people.user_id`;
}
