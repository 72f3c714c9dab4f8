import { ACTIVITY_KINDS } from '../../../src/definition/definition.ts';
import { literal } from '../sql/plan-query.ts';
import { ago, type DefinitionDialect } from './dialect.ts';

/** A name that the log has seen: of an event with one of its properties, if any, or of a trait. */
export interface SeenName {
  readonly kind: (typeof ACTIVITY_KINDS)[number] | 'identify';
  /** The event, page or screen; empty for traits. */
  readonly of: string;
  /** The property or trait; null for the event itself. */
  readonly key: string | null;
}

/** Days of the log that are read, and its newest messages that are read for the names of properties. */
const LOOKED_AT = 30 * 86_400_000;
const NEWEST = 20_000;
/** The most names of events, and names in all. */
const EVENTS = 500;
export const MOST_NAMES = 5_000;

/** A query for the names, each written as an id. */
export function namesQuery(dialect: DefinitionDialect): string {
  const events = dialect.view('events');
  const kinds = [...ACTIVITY_KINDS, 'identify'].map(literal).join(', ');
  const said = "CASE WHEN type = 'identify' THEN '' ELSE coalesce(event, name, '') END";
  const recent = `FROM ${events} WHERE type IN (${kinds}) AND day >= CAST(${ago(LOOKED_AT)} AS date)`;
  const keysOf = (column: 'properties' | 'traits', which: string) =>
    `SELECT DISTINCT type, said, ${dialect.keys(column)} AS key FROM newest WHERE ${which}`;
  return `WITH newest AS (
    SELECT type, ${said} AS said, properties, traits ${recent} ORDER BY received_at DESC LIMIT ${NEWEST}
  ), named AS (
    SELECT type, ${said} AS said, count(*) AS times ${recent} GROUP BY 1, 2 ORDER BY times DESC LIMIT ${EVENTS}
  ), found AS (
    SELECT type, said, '' AS key FROM named WHERE said <> ''
    UNION ALL ${keysOf('properties', "type <> 'identify'")}
    UNION ALL ${keysOf('traits', "type = 'identify'")}
  )
  SELECT concat(type, '|', length(said), '|', said, key) AS user_id FROM found LIMIT ${MOST_NAMES}`;
}

export function readName(text: string): SeenName {
  const [kind = '', length = ''] = text.split('|', 2);
  const said = [...text.slice(kind.length + length.length + 2)];
  const key = said.slice(Number(length)).join('');
  return { kind: kind as SeenName['kind'], of: said.slice(0, Number(length)).join(''), key: key === '' ? null : key };
}
