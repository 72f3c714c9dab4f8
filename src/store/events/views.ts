import { KIND_VIEWS, LOG_VIEWS } from '../../definition/log-views.ts';
import { placeholderSql } from '../../kernel/placeholders.ts';
import { identitiesQuery } from './identities.ts';
import { usersQuery, type ViewDialect } from './users.ts';

/** A view over the log (docs/event-log.md). `query` takes a function from a view's name to its SQL name. */
interface EventView {
  readonly name: string;
  readonly query: (view: (name: string) => string) => string;
}

export const DUCKDB_VIEWS: ViewDialect = {
  binary: '',
  each: 'json_each',
  object: 'json_group_object',
  json: 'JSON',
  isNull: (value) => `(json_type(${value}) = 'NULL')`,
};
export const POSTGRES_VIEWS: ViewDialect = {
  binary: ' COLLATE "C"',
  each: 'jsonb_each',
  object: 'jsonb_object_agg',
  json: 'jsonb',
  isNull: (value) => `(jsonb_typeof(${value}) = 'null')`,
};

const ofType = (name: string, type: string): EventView => ({
  name,
  query: (view) => `SELECT * FROM ${view('events')} WHERE type = '${type}'`,
});

/** All views but `events`, each after those that it reads. */
export const eventViews = (dialect: ViewDialect): readonly EventView[] => [
  ...Object.entries(KIND_VIEWS).map(([type, name]) => ofType(name, type)),
  { name: 'identity_links', query: (view) => identityLinks(view('events'), dialect.binary) },
  { name: 'identities', query: (view) => identitiesQuery(view('identity_links'), dialect.binary) },
  { name: 'users', query: (view) => usersQuery(view, dialect) },
];

/** Return a query for rows of (kind, id, user_id, …): the links between ids that events state. */
export function identityLinks(events: string, binary: string): string {
  const id = "CASE WHEN type = 'alias' THEN previous_id ELSE anonymous_id END";
  return `SELECT * FROM (
      SELECT CASE WHEN type = 'alias' THEN 'alias' ELSE 'anonymous' END AS kind, ${id} AS id,
        user_id, likely_at AS "timestamp", received_at, message_id
      FROM ${events} WHERE type IN ('identify', 'alias') AND user_id IS NOT NULL AND ${id} IS NOT NULL
    ) AS links WHERE NOT ${placeholderSql(`id${binary}`)} AND NOT ${placeholderSql(`user_id${binary}`)}`;
}

/**
 * Return an SQL expression for the time that decides who was first: that of the receipt, if the client's clock was
 * years off.
 *
 * @param keep - SQL for the interval for which the log keeps events; null if that is unlimited
 */
export function likelyAt(keep: string): string {
  return `CASE WHEN "timestamp" < TIMESTAMP '1973-01-01' OR "timestamp" < received_at - ${keep} THEN received_at ELSE "timestamp" END`;
}

/** Return a FROM item for events with the column `likely_at`. @param keep - in milliseconds */
export function withLikelyAt(events: string, keep: number): string {
  return `(SELECT *, ${likelyAt(intervalOf(keep))} AS likely_at FROM ${events}) AS dated`;
}

export const intervalOf = (ms: number): string => `INTERVAL '${ms} milliseconds'`;

export const EVENT_COLUMNS = [
  ...['message_id', 'type', 'event', 'user_id', 'anonymous_id', 'previous_id', 'group_id', 'name', 'timestamp'],
  ...['received_at', 'day', 'source', 'properties', 'traits', 'context', 'likely_at'],
] as const;

const NAMED = new RegExp(`\\b(rollcall_)?(${LOG_VIEWS.join('|')})\\b`, 'gi');

export const ALL_VIEWS: ReadonlySet<string> = new Set(LOG_VIEWS.flatMap((name) => [name, `rollcall_${name}`]));

/** Return the names of the log's views, in lower case, in some SQL. It may also name its own tables so. */
export function namedViews(sql: string): ReadonlySet<string> {
  return new Set(sql.match(NAMED)?.map((found) => found.toLowerCase()));
}
