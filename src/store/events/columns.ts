/** Columns of the log's files, in order. `source` and `day` are in the files' paths. */
export const COLUMNS = [
  ...['message_id', 'type', 'event', 'user_id', 'anonymous_id', 'previous_id', 'group_id', 'name', 'timestamp'],
  ...['received_at', 'properties', 'traits', 'context', 'rest'],
] as const;

const TEXTS = [
  ...['$.messageId', '$.type', '$.event', '$.userId', '$."User ID"', '$.anonymousId', '$."Previous ID"', '$.groupId'],
  ...['$.name', '$.timestamp', '$.receivedAt'],
];
const OBJECTS = ['$.properties', '$.traits', '$.context'];
/** Keys of every body that have columns of their own. */
const PROMOTED = [
  ...['version', 'messageId', 'type', 'userId', 'anonymousId', 'receivedAt', 'properties', 'traits', 'context'],
];
/** Further ones, by type: other types may have any value there, which `rest` keeps. */
const PROMOTED_OF: Readonly<Record<string, readonly string[]>> = {
  track: ['event'],
  page: ['name'],
  screen: ['name'],
  group: ['groupId'],
  alias: ['User ID', 'Previous ID'],
};

/**
 * Return a CASE expression for the keys of an event that its columns hold as they were. A time that was clamped to the
 * receipt is not among them.
 *
 * @param write - writes the keys as a literal
 */
export function promotedSql(type: string, isClamped: string, write: (keys: readonly string[]) => string): string {
  const keys = (own: readonly string[]) =>
    `CASE WHEN ${isClamped} THEN ${write([...PROMOTED, ...own])} ELSE ${write([...PROMOTED, ...own, 'timestamp'])} END`;
  const cases = Object.entries(PROMOTED_OF).map(([name, own]) => `WHEN '${name}' THEN ${keys(own)}`);
  return `CASE ${type} ${cases.join(' ')} ELSE ${keys([])} END`;
}

/** A merge patch that removes keys. */
const without = (keys: readonly string[]) => `'${JSON.stringify(Object.fromEntries(keys.map((key) => [key, null])))}'`;

const list = (texts: readonly string[]) => `[${texts.map((text) => `'${text}'`).join(', ')}]`;

/**
 * Return DuckDB's SQL for events of the tail in the log's form: `source`, `day` and all columns.
 *
 * @param parts - a table of (source, bodies), as in the store's tail
 */
export function eventsOf(parts: string): string {
  return `
    SELECT source, CAST(received_at AS DATE) AS day, text[1] AS message_id, text[2] AS type,
      CASE WHEN text[2] = 'track' THEN text[3] END AS event, coalesce(text[4], text[5]) AS user_id, text[6] AS anonymous_id,
      text[7] AS previous_id, text[8] AS group_id, text[9] AS name,
      timestamp, received_at, object[1] AS properties, object[2] AS traits, object[3] AS context,
      CASE WHEN json_keys(rest) <> [] THEN rest END AS rest
    FROM (
      SELECT *, json_extract(body, ${list(OBJECTS)}) AS object,
        json_merge_patch(body, ${promotedSql('text[2]', 'is_clamped', without)}) AS rest
      FROM (
        SELECT *, CASE WHEN is_late THEN received_at WHEN is_early THEN TIMESTAMP '0001-01-01'
            ELSE least(said, received_at) END AS timestamp,
          is_late OR is_early OR said > received_at AS is_clamped
        FROM (
          SELECT *, CAST(text[11] AS TIMESTAMP) AS received_at, text[10] LIKE '+%' AS is_late,
            text[10] LIKE '-%' OR text[10] LIKE '0000%' AS is_early,
            CASE WHEN NOT (is_late OR is_early) THEN CAST(text[10] AS TIMESTAMP) END AS said
          FROM (
            SELECT source, body, json_extract_string(body, ${list(TEXTS)}) AS text
            FROM (SELECT source, unnest(string_split(bodies, chr(10))) AS body FROM ${parts})
          )
        )
      )
    )`;
}
