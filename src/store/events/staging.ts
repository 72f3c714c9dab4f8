import type { Wanted, WantedActivity } from '../event-log.ts';
import { identitiesQuery } from './identities.ts';
import { identityLinks, withLikelyAt } from './views.ts';

export interface StagingDialect {
  /** Compares text by its bytes, whatever its collation. */
  readonly binary: string;
  /** Milliseconds since 1970, as a type that every driver returns as a number. */
  readonly millis: (timestamp: string) => string;
}

const LINKS = 'rollcall_live_links';
const IDENTITIES = 'rollcall_live_identities';
const ROWS = 'rollcall_live_rows';

/** Rows of `people`. Links of anonymous ids are redundant once their owners are known. */
const OF_PEOPLE = 'person IS NOT NULL AND NOT (is_anonymous AND linked IS NOT NULL)';
const OF_ANONYMOUS = 'is_anonymous';

/** Statements that group a log by people in temporary tables, so that it need not fit into memory. */
interface Staging {
  /** Statements that create the tables, in this order, each with its table's name. */
  readonly tables: readonly (readonly [name: string, statement: string])[];
  /** One row: the number of rows of `people` and `anonymous`, and the latest receipt. */
  readonly size: string;
  readonly people: string;
  readonly anonymous: string;
}

/** @param log - the log, for a FROM clause */
export function stagingOf(wanted: Wanted, log: string, dialect: StagingDialect): Staging {
  const { binary, millis } = dialect;
  const events = withLikelyAt(log, wanted.keep);
  const times = `${millis('"timestamp"')} AS happened, ${millis('received_at')} AS received`;
  const link = (isAnonymous: boolean, where: string) => `
    SELECT ${isAnonymous} AS is_anonymous, id, '' AS type, CAST(NULL AS varchar) AS event, user_id AS linked, ${times},
      message_id, CAST(NULL AS varchar) AS properties, CAST(NULL AS varchar) AS traits, CAST(NULL AS varchar) AS context
    FROM ${LINKS} WHERE ${where}`;
  const rows = [link(true, 'true'), link(false, "kind = 'alias' AND id <> user_id")];
  if (wanted.activities.length > 0 || wanted.traits) rows.push(activity(wanted, events, times));
  if (wanted.everybody) rows.push(seen(events, dialect));
  const columns = `person, is_anonymous, id, type, event, linked, happened, received, message_id, properties, traits, context`;
  return {
    tables: [
      [LINKS, `CREATE TEMPORARY TABLE ${LINKS} AS ${linksPerDay(identityLinks(events, binary), binary)}`],
      [IDENTITIES, `CREATE TEMPORARY TABLE ${IDENTITIES} AS ${identitiesQuery(LINKS, binary)}`],
      [
        ROWS,
        `CREATE TEMPORARY TABLE ${ROWS} AS
        SELECT coalesce(who.user_id, CASE WHEN NOT found.is_anonymous THEN found.id END) AS person, found.*
        FROM (${rows.join(' UNION ALL ')}) AS found LEFT JOIN ${IDENTITIES} AS who
          ON who.id = found.id AND who.kind = CASE WHEN found.is_anonymous THEN 'anonymous' ELSE 'user' END`,
      ],
    ],
    size: `SELECT CAST(count(*) FILTER (WHERE ${OF_PEOPLE}) + count(*) FILTER (WHERE ${OF_ANONYMOUS}) AS double precision),
      coalesce(max(received), 0) FROM ${ROWS}`,
    people: `SELECT ${columns} FROM ${ROWS} WHERE ${OF_PEOPLE} ORDER BY person${binary}, is_anonymous, id${binary}`,
    anonymous: `SELECT ${columns} FROM ${ROWS} WHERE ${OF_ANONYMOUS} ORDER BY id${binary}`,
  };
}

/** Keep the first link of each anonymous id per user and day, which decides as long as the log has that day. */
function linksPerDay(links: string, binary: string): string {
  const apart = "CASE WHEN kind = 'anonymous' THEN CAST(CAST(received_at AS date) AS varchar) ELSE message_id END";
  return `SELECT kind, id, user_id, "timestamp", received_at, message_id FROM (
      SELECT *, row_number() OVER (
        PARTITION BY kind, id, user_id, ${apart} ORDER BY "timestamp", received_at, message_id${binary}) AS place
      FROM (${links}) AS said
    ) AS placed WHERE place = 1`;
}

/** Columns for the id that an event itself names. */
const RAW_ID = 'user_id IS NULL AS is_anonymous, coalesce(user_id, anonymous_id) AS id';
const HAS_ID = '(user_id IS NOT NULL OR anonymous_id IS NOT NULL)';

function activity({ activities, traits }: Wanted, log: string, times: string): string {
  const where = activities.map((wanted) => `(${named(wanted)}${after(wanted)})`);
  const of = (column: string, isWanted: (wanted: WantedActivity) => boolean, others: string[] = []) => {
    const conditions = new Set([...activities.filter(isWanted).map(named), ...others]);
    return conditions.size === 0
      ? 'CAST(NULL AS varchar)'
      : `CASE WHEN ${[...conditions].join(' OR ')} THEN ${column} END`;
  };
  const identify = traits ? ["type = 'identify'"] : [];
  const part = (name: 'properties' | 'traits' | 'context') =>
    of(`CAST(${name} AS varchar)`, ({ parts }) => parts.has(name), name === 'traits' ? identify : []);
  return `
    SELECT ${RAW_ID}, type, ${EVENT_NAME} AS event, CAST(NULL AS varchar) AS linked, ${times},
      ${of('message_id', ({ ids }) => ids, identify)} AS message_id,
      ${part('properties')} AS properties, ${part('traits')} AS traits, ${part('context')} AS context
    FROM ${log} WHERE ${HAS_ID} AND (${[...where, ...identify].join(' OR ')})`;
}

/** Name of a track event, page or screen. */
export const EVENT_NAME = "CASE WHEN type IN ('page', 'screen') THEN name ELSE event END";

function named({ kind, names }: WantedActivity): string {
  const isNamed = `${kind === 'track' ? 'event' : 'name'} IN (${names?.map(literal).join(', ')})`;
  if (names === null) return `type = '${kind}'`;
  // Only track events have one.
  return kind === 'track' ? isNamed : `type = '${kind}' AND ${isNamed}`;
}

/** Return a condition on both times: no event is later than its receipt, by which the log finds events best. */
function after({ since }: WantedActivity): string {
  // Hardly any event is from before 1970, and not every such time can be written in SQL.
  if (since === null || since < 0) return '';
  const instant = `TIMESTAMP '${new Date(since).toISOString().replace('T', ' ').replace('Z', '')}'`;
  return ` AND "timestamp" >= ${instant} AND received_at >= ${instant}`;
}

/** Return a query for the latest receipt of each id. */
function seen(log: string, { millis }: StagingDialect): string {
  const last = millis('max(received_at)');
  return `
    SELECT user_id IS NULL AS is_anonymous, coalesce(user_id, anonymous_id) AS id, '' AS type, CAST(NULL AS varchar) AS event,
      CAST(NULL AS varchar) AS linked, ${last} AS happened, ${last} AS received, CAST(NULL AS varchar) AS message_id,
      CAST(NULL AS varchar) AS properties, CAST(NULL AS varchar) AS traits, CAST(NULL AS varchar) AS context
    FROM ${log} WHERE ${HAS_ID} GROUP BY 1, 2`;
}

const literal = (text: string) => `'${text.replaceAll("'", "''")}'`;
