import { promotedSql } from '../../events/columns.ts';
import { readable } from '../../events/readable.ts';
import { EVENT_COLUMNS, likelyAt, POSTGRES_VIEWS, eventViews as viewsOf } from '../../events/views.ts';
import type { NewMessage } from '../../port.ts';
import { columns, text, uuid } from '../arrays.ts';

/** The schema of the views: others use names such as `users` too. */
export const EVENTS_SCHEMA = 'rollcall_events';

/** The interval for which the log keeps events, as the process that looks after its days says. */
const KEPT =
  "(SELECT CAST(value AS bigint) * INTERVAL '1 millisecond' FROM rollcall.meta WHERE key = 'event_log_keep')";

/** Return the statements that create the views, harmless when repeated. */
export function eventViews(): readonly string[] {
  const columns = EVENT_COLUMNS.map((column) =>
    column === 'likely_at' ? `${likelyAt(KEPT)} AS likely_at` : `"${column}"`,
  );
  const events = `SELECT ${columns.join(', ')} FROM rollcall.event`;
  const views = [{ name: 'events', query: () => events }, ...viewsOf(POSTGRES_VIEWS)];
  return views.map(
    ({ name, query }) =>
      `CREATE OR REPLACE VIEW ${EVENTS_SCHEMA}.${name} AS ${query((other) => `${EVENTS_SCHEMA}.${other}`)}`,
  );
}

/**
 * Return a statement that writes the columns of `logColumns`, from parameter `first` on. Times outside Postgres's range
 * are useless: the far future becomes the time of receipt, like any later time.
 */
export function logSql(first: number, condition = 'true'): string {
  return `
  INSERT INTO rollcall.event
  SELECT CAST(at AS date), at,
    CASE WHEN is_late THEN at WHEN is_early THEN TIMESTAMP '0001-01-01' ELSE least(happened, at) END,
    source, body ->> 'messageId', type, CASE WHEN type = 'track' THEN body ->> 'event' END,
    coalesce(body ->> 'userId', body ->> 'User ID'), body ->> 'anonymousId', body ->> 'Previous ID', body ->> 'groupId',
    body ->> 'name', body -> 'properties', body -> 'traits', body -> 'context',
    nullif(body - ${promotedSql('type', 'is_late OR is_early OR happened > at', textArray)}, '{}')
  FROM (
    SELECT *, CASE WHEN NOT is_late AND NOT is_early THEN CAST(said AS timestamp) END AS happened
    FROM (
      SELECT l.source, l.body, l.body ->> 'type' AS type, CAST(l.body ->> 'receivedAt' AS timestamp) AS at,
        l.body ->> 'timestamp' AS said, l.body ->> 'timestamp' LIKE '+%' AS is_late,
        l.body ->> 'timestamp' LIKE '-%' OR l.body ->> 'timestamp' LIKE '0000%' AS is_early
      FROM (
        SELECT seen, source, CAST(body AS jsonb) AS body
        FROM (${columns(first, { seen: 'uuid', source: 'text', body: 'text' })}) AS c OFFSET 0
      ) AS l WHERE ${condition}
    ) AS t
  ) AS e`;
}

const textArray = (keys: readonly string[]) => `'{${keys.map((key) => `"${key}"`).join(',')}}'::text[]`;

/** Return the parameters of `logSql` for messages. */
export function logColumns(messages: readonly { readonly key: string; readonly message: NewMessage }[]): Buffer[] {
  return [
    uuid(messages, ({ key }) => key),
    text(messages, ({ message }) => message.source),
    text(messages, ({ message }) => readable(message.body)),
  ];
}
