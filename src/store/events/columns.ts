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
/** Keys of a body that have columns of their own. */
export const PROMOTED = [
  ...['version', 'messageId', 'type', 'event', 'userId', 'User ID', 'anonymousId', 'Previous ID', 'groupId', 'name'],
  ...['timestamp', 'receivedAt', 'properties', 'traits', 'context'],
];
/** A merge patch that removes these keys. */
const WITHOUT_PROMOTED = JSON.stringify(Object.fromEntries(PROMOTED.map((name) => [name, null])));

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
      CASE WHEN text[10] LIKE '+%' THEN received_at WHEN text[10] LIKE '-%' OR text[10] LIKE '0000%' THEN TIMESTAMP '0001-01-01'
        ELSE least(CAST(text[10] AS TIMESTAMP), received_at) END AS timestamp, received_at,
      object[1] AS properties, object[2] AS traits, object[3] AS context,
      CASE WHEN json_keys(rest) <> [] THEN rest END AS rest
    FROM (
      SELECT source, text, CAST(text[11] AS TIMESTAMP) AS received_at,
        json_extract(body, ${list(OBJECTS)}) AS object, json_merge_patch(body, '${WITHOUT_PROMOTED}') AS rest
      FROM (
        SELECT source, body, json_extract_string(body, ${list(TEXTS)}) AS text
        FROM (SELECT source, unnest(string_split(bodies, chr(10))) AS body FROM ${parts})
      )
    )`;
}
