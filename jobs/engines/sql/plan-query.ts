import type { Action, StageRequest, TraitColumn } from '../port.ts';
import { timestampLiteral } from './statement.ts';

/** A type as its database names it, with its parts where it is made of others and the session knows them. */
export interface ValueType {
  readonly type: string;
  /** Of a list. */
  readonly items?: ValueType;
  /** Of a map: its values. */
  readonly entries?: ValueType;
  /** Of a struct. */
  readonly fields?: readonly Column[];
}

/** A column of a definition's result, or a field of a struct. */
export interface Column extends ValueType {
  readonly name: string;
}

/** Where a dialect writes things its own way. */
export interface SqlDialect {
  /** A condition that holds for text that is no id: too long, of white space only, or that other databases would not take. */
  unusable(expression: string): string;
  /**
   * A trait's value as something that `jsonObject` takes, with null for what is not in JSON (NaN, infinity), also within
   * lists and structs; null when JSON has no form for the type.
   */
  traitValue(column: Column): string | null;
  /** The JSON type of values of a type. */
  jsonType(type: ValueType): Omit<TraitColumn, 'key'>;
  /** JSON text of an object with these keys and values. */
  jsonObject(fields: readonly { readonly key: string; readonly value: string }[]): string;
  /** Whether ids may be of this type. */
  isIdType(type: string): boolean;
  /** Numbers rows by user id, those without one last. */
  numbered(rows: string): string;
  /** Whether a file that the definition reads is not whole: half written, or cut off. */
  isIncomplete(error: Error): boolean;
  /** Has text compared by its bytes, whatever its collation. */
  readonly binary: string;
  /** The beginning of an id, by which members have an index; all of it where there is none. */
  prefix(id: string): string;
  /**
   * Ends a subquery that the planner is not to look into: it takes users who stay as they are for as many groups, and would sort
   * them all.
   */
  readonly opaque: string;
  /** Statements that make the table of a plan and fill it with the rows of its query. */
  keep(table: string, query: string, hasPlaces: boolean): readonly string[];
}

/** The tables of one key. */
export interface KeyTables {
  /** (user_id, value, since); null while there is no snapshot. */
  readonly members: string | null;
  /** (user_id, since): who left and has not come back. */
  readonly leavers: string | null;
}

/** JSON text of a longer value would be refused by receivers. */
export const LONGEST_VALUE = 250_000;

const NO_ROWS = '(SELECT NULL::varchar AS user_id, NULL::varchar AS value, 0 AS since WHERE false)';

/** Quotes a name. */
export function name(text: string): string {
  return `"${text.replaceAll('"', '""')}"`;
}

/**
 * White space as JavaScript has it, for a bracket of a regular expression: databases disagree on `\s`. Collection trims ids
 * by the same.
 */
export function whiteSpace(escaped: (code: string) => string): string {
  const singles = ['0020', '00a0', '1680', '2028', '2029', '202f', '205f', '3000', 'feff'].map(escaped);
  return `${escaped('0009')}-${escaped('000d')}${escaped('2000')}-${escaped('200a')}${singles.join('')}`;
}

/** Quotes a string. */
export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/**
 * Whether a plan is that of a first snapshot, whose rows have their place in the definition's result. The snapshot is put into
 * that order: a join is the faster, the more its two sides lie in the same order.
 */
export function hasPlaces(action: Action, fromVersion: number): boolean {
  return fromVersion === 0 && (action === 'sync' || action === 'resync');
}

/**
 * The query behind a plan: (n, user_id, value, was, now, rows), and `place` of a first one. Users who stay as they are
 * fold into one row without an id, and so do rows without a usable id, so that one pass over the data gives the changes and
 * all the counts.
 */
export function planQuery(request: StageRequest, fresh: string, tables: KeyTables, dialect: SqlDialect): string {
  const isFirst = tables.members === null && (request.action === 'sync' || request.action === 'resync');
  return isFirst ? firstRows(request, fresh, dialect) : dialect.numbered(planRows(request, fresh, tables, dialect));
}

/**
 * Without a snapshot there is nothing to compare with. What is the same for all is not sorted with them. A trait's rows are
 * folded by user already.
 */
function firstRows({ kind }: StageRequest, fresh: string, dialect: SqlDialect): string {
  const source = `SELECT *, row_number() OVER () AS place FROM (${fresh}) AS fresh`;
  const [value, users] =
    kind === 'trait'
      ? ['value', `SELECT id AS user_id, value, rows, place FROM (${source}) AS placed`]
      : [
          'NULL::varchar',
          `SELECT id AS user_id, count(*) AS rows, min(place) AS place
           FROM (SELECT ${usable('id', dialect)} AS id, place FROM (${source}) AS placed) AS cleaned GROUP BY id`,
        ];
  return `SELECT n, user_id, ${value} AS value, FALSE AS was, user_id IS NOT NULL AS now, rows, place
    FROM (${dialect.numbered(users)}) AS users`;
}

function planRows(request: StageRequest, fresh: string, tables: KeyTables, dialect: SqlDialect): string {
  const members = tables.members ?? NO_ROWS;
  const leavers = tables.leavers ?? NO_ROWS;
  switch (request.action) {
    case 'retire':
    case 'withdraw':
    case 'backfill': {
      const [value, now] = request.action === 'backfill' ? ['value', 'TRUE'] : ['NULL::varchar', 'FALSE'];
      const whole = `SELECT user_id, ${value} AS value, TRUE AS was, ${now} AS now, 1 AS rows FROM ${members} AS members`;
      if (!request.leavers) return whole;
      return `${whole} UNION ALL SELECT user_id, NULL, FALSE, FALSE, 1 FROM ${leavers} AS leavers`;
    }
    case 'resync':
      return `WITH difference AS (${difference(request, fresh, members, dialect)})
        SELECT * FROM difference
        UNION ALL SELECT user_id, NULL, FALSE, FALSE, 1 FROM ${leavers} AS leavers
          WHERE NOT EXISTS (SELECT 1 FROM difference WHERE difference.user_id = leavers.user_id)`;
    case 'sync':
      return difference(request, fresh, members, dialect);
  }
}

function difference(request: StageRequest, fresh: string, members: string, dialect: SqlDialect): string {
  return request.kind === 'trait'
    ? traitDifference(request, fresh, members, dialect)
    : audienceDifference(request, fresh, members, dialect);
}

/**
 * Rows are not folded by user before the join: that would be the dearest step of all. An id that the snapshot has is usable, so
 * that only those of newcomers are looked at. A sync names those who change: of the others `was` tells who stay.
 */
function audienceDifference({ action }: StageRequest, fresh: string, members: string, dialect: SqlDialect): string {
  const [known, now, keys] =
    action === 'resync'
      ? ['members.user_id', 'found AND (was OR id IS NOT NULL)', 'id, was, found']
      : ['CASE WHEN fresh.id IS NULL THEN members.user_id END', 'was = (id IS NULL)', 'id, was'];
  return `SELECT id AS user_id, NULL::varchar AS value, was, ${now} AS now, count(*) AS rows
    FROM (
      SELECT CASE WHEN members.user_id IS NULL THEN ${usable('fresh.id', dialect)} ELSE ${known} END AS id,
        members.user_id IS NOT NULL AS was, fresh.id IS NOT NULL AS found
      FROM (${fresh}) AS fresh FULL JOIN ${members} AS members ON fresh.id = members.user_id${dialect.opaque}
    ) AS joined
    GROUP BY ${keys}`;
}

function traitDifference({ action }: StageRequest, fresh: string, members: string, { opaque }: SqlDialect): string {
  const stays =
    action === 'resync'
      ? 'FALSE'
      : 'members.user_id IS NOT NULL AND fresh.id IS NOT NULL AND fresh.value = members.value';
  return `SELECT CASE WHEN stays THEN NULL ELSE id END AS user_id, CASE WHEN stays THEN NULL ELSE value END AS value,
      was, now, CAST(sum(rows) AS bigint) AS rows
    FROM (
      SELECT coalesce(fresh.id, members.user_id) AS id, fresh.value AS value, coalesce(fresh.rows, 1) AS rows,
        members.user_id IS NOT NULL AS was, fresh.id IS NOT NULL AS now, ${stays} AS stays
      FROM (${fresh}) AS fresh FULL JOIN ${members} AS members ON fresh.id = members.user_id${opaque}
    ) AS joined
    GROUP BY 1, 2, 3, 4`;
}

/** An audience's definition as (id): ids as text, unusable ones too. */
export function freshAudience(statement: string, userId: string, dialect: SqlDialect): string {
  return `SELECT ${idText(userId, dialect)} AS id FROM (\n${statement}\n) AS definition`;
}

/**
 * A trait's definition as (id, value, rows): ids as text, null where unusable; of several rows of a user the one with the
 * greatest value counts, so that reruns agree. A row whose value is too long counts as one without an id.
 */
export function freshTrait(
  statement: string,
  userId: string,
  fields: readonly { readonly key: string; readonly value: string }[],
  dialect: SqlDialect,
): string {
  const nothing = fields.map(({ value }) => `${value} IS NULL`).join(' AND ');
  return `SELECT id, max(value${dialect.binary}) AS value, count(*) AS rows
    FROM (
      SELECT CASE WHEN length(value) > ${LONGEST_VALUE} THEN NULL ELSE ${usable('id', dialect)} END AS id, value
      FROM (
        SELECT ${idText(userId, dialect)} AS id, CASE WHEN ${nothing} THEN NULL ELSE ${dialect.jsonObject(fields)} END AS value
        FROM (\n${statement}\n) AS definition
      ) AS described
    ) AS cleaned
    GROUP BY id
    HAVING id IS NULL OR max(value${dialect.binary}) IS NOT NULL`;
}

/** Milliseconds since 1970 of the greatest date or time in a column, up to `latest` where there is one. */
export function newestValue(statement: string, column: Column, latest: number): string {
  // Of text, a cast to a plain timestamp would leave out its offset.
  const isTime = /^(date|timestamp)/i.test(column.type);
  const time = isTime ? name(column.name) : `CAST(${name(column.name)} AS timestamp with time zone)`;
  const known = `max(moment) FILTER (WHERE moment <= ${timestampLiteral(latest)})`;
  return `SELECT CAST(extract(epoch FROM coalesce(${known}, max(moment))) * 1000 AS bigint)
    FROM (SELECT CAST(${time} AS timestamp) AS moment FROM (\n${statement}\n) AS definition) AS times
    WHERE isfinite(moment)`;
}

function idText(userId: string, { binary }: SqlDialect): string {
  return `CAST(${name(userId)} AS varchar)${binary}`;
}

function usable(id: string, dialect: SqlDialect): string {
  return `CASE WHEN ${dialect.unusable(id)} THEN NULL ELSE ${id} END`;
}
