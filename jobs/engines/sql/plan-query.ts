import { placeholderSql } from '../../../src/kernel/placeholders.ts';
import { type Action, type ComputedKind, LONGEST_VALUE, type StageRequest, type TraitColumn } from '../port.ts';
import { timestampLiteral } from './statement.ts';

/** A type as its database names it, with the types that it consists of, if the session knows them. */
export interface ValueType {
  readonly type: string;
  readonly items?: ValueType;
  /** Type of the values of a map. */
  readonly entries?: ValueType;
  readonly fields?: readonly Column[];
}

/** A column of a definition's result, or a field of a struct. */
export interface Column extends ValueType {
  readonly name: string;
}

/** A trait with its value as an argument of `jsonObject`. */
interface JsonField extends TraitColumn {
  readonly value: string;
}

export interface SqlDialect {
  /** A condition for text that can't be an id: too long, only white space, or not accepted by other databases. */
  unusable(expression: string): string;
  /**
   * A trait's value as an argument of `jsonObject`, with null for NaN and infinity, also within lists and structs. Null
   * if JSON has no form for the type.
   */
  traitValue(column: Column): string | null;
  /** True if two different JSON texts of traits have the same values. Never raises. */
  isSame(one: string, other: string): string;
  jsonType(type: ValueType): Omit<TraitColumn, 'key'>;
  jsonObject(fields: readonly JsonField[]): string;
  isIdType(type: string): boolean;
  /** A query for the names of a statement's columns, if a subquery renames those that are named alike; null if not. */
  writtenNames(statement: string): string | null;
  /** Numbers rows by user id, those without one last. */
  numbered(rows: string): string;
  /** True if a file that the definition reads is half written or cut off. */
  isIncomplete(error: Error): boolean;
  /** Makes text compare by its bytes, whatever its collation. */
  readonly binary: string;
  /** The beginning of an id that members are indexed by; the whole id if there is no index. */
  prefix(id: string): string;
  /**
   * Ends a subquery that the planner must not see into: it would expect as many groups as there are unchanged users,
   * and sort them all.
   */
  readonly opaque: string;
  /** Statements that make the table of a plan and fill it with the rows of its query. */
  keep(table: string, query: string, hasPlaces: boolean): readonly string[];
}

export interface KeyTables {
  /** (user_id, value, since); null while there is no snapshot. */
  readonly members: string | null;
  /** (user_id, since): users who left and have not returned. */
  readonly leavers: string | null;
  /** (key, user_id, value, since, until): past states of members. */
  readonly history: string;
}

/** From here on, fifteen digits round to a number that JSON readers take for infinity. */
export const DOUBLE_LIMIT = '1.797693134862315e308';

export const NO_ROWS = '(SELECT NULL::varchar AS user_id, NULL::varchar AS value, 0 AS since WHERE false)';

export function name(text: string): string {
  return `"${text.replaceAll('"', '""')}"`;
}

/**
 * White space as in JavaScript, for a bracket of a regular expression: databases disagree on `\s`. Collection trims the
 * same from ids.
 */
export function whiteSpace(escaped: (code: string) => string): string {
  const singles = ['0020', '00a0', '1680', '2028', '2029', '202f', '205f', '3000', 'feff'].map(escaped);
  return `${escaped('0009')}-${escaped('000d')}${escaped('2000')}-${escaped('200a')}${singles.join('')}`;
}

export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/**
 * True for the plan of a first snapshot, whose rows have their place in the definition's result. The snapshot is stored
 * in that order, since joins are faster if both sides have a similar order.
 */
export function hasPlaces(action: Action, fromVersion: number): boolean {
  return fromVersion === 0 && (action === 'sync' || action === 'resync');
}

/**
 * The query of a plan: (n, user_id, value, was, now, rows), and `place` for a first one. Unchanged users are folded
 * into one row without an id, and so are rows without a usable id. One pass over the data then gives the changes and
 * all counts. Members whose columns change without a message have the position 0, after which no page begins.
 */
export function planQuery(request: StageRequest, fresh: string, tables: KeyTables, dialect: SqlDialect): string {
  const isFirst =
    tables.members === null && !request.known && (request.action === 'sync' || request.action === 'resync');
  if (isFirst) return firstRows(request, fresh, dialect);
  const rows = dialect.numbered(planRows(request, fresh, tables, dialect));
  if (!isSilent(request)) return rows;
  return `SELECT CASE WHEN was AND now THEN 0 ELSE n END AS n, user_id, value, was, now, rows FROM (${rows}) AS numbered`;
}

/** True if members whose columns alone have changed get no message. */
export const isSilent = ({ action, with: columns }: StageRequest) => action === 'sync' && columns?.areSent === false;

export const hasValues = ({ kind, with: columns }: StageRequest) => kind === 'trait' || columns !== undefined;

/** Without a snapshot there is nothing to compare with. Constant columns are added after sorting. */
function firstRows(request: StageRequest, fresh: string, dialect: SqlDialect): string {
  const source = `SELECT *, row_number() OVER () AS place FROM (${fresh}) AS fresh`;
  const [value, users] = hasValues(request)
    ? [
        'value',
        `SELECT id AS user_id, value, rows, place FROM (${foldedValues(source, request.kind, dialect, 'place')}) AS folded`,
      ]
    : [
        'NULL::varchar',
        `SELECT id AS user_id, count(*) AS rows, min(place) AS place
           FROM (SELECT ${usable('id', dialect)} AS id, place FROM (${source}) AS placed) AS cleaned GROUP BY id`,
      ];
  return `SELECT n, user_id, ${value} AS value, FALSE AS was, user_id IS NOT NULL AS now, rows, place
    FROM (${dialect.numbered(users)}) AS users`;
}

function planRows(request: StageRequest, fresh: string, tables: KeyTables, dialect: SqlDialect): string {
  const now = tables.members ?? NO_ROWS;
  const members = request.known ? membersAt(request.known.version, request, tables, dialect) : now;
  const leavers = tables.leavers ?? NO_ROWS;
  switch (request.action) {
    case 'retire':
    case 'withdraw':
    case 'backfill': {
      if (request.known) return sinceKnown(request, request.known, { ...tables, members: now }, members, dialect);
      const isBackfill = request.action === 'backfill';
      const value = isBackfill || request.kind === 'audience' ? 'value' : 'NULL::varchar';
      const isMember = isBackfill ? 'TRUE' : 'FALSE';
      const whole = `SELECT user_id, ${value} AS value, TRUE AS was, ${isMember} AS now, 1 AS rows FROM ${members} AS members${request.onlyLeavers ? ' WHERE FALSE' : ''}`;
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

type Known = NonNullable<StageRequest['known']>;

/** The members in a past version, as the table of members. */
function membersAt(version: number, { key }: StageRequest, tables: KeyTables, { binary }: SqlDialect): string {
  const past = `SELECT user_id${binary} AS user_id, value, since FROM ${tables.history}
    WHERE key = ${literal(key)} AND since <= ${version} AND until > ${version}`;
  if (tables.members === null) return `(${past})`;
  return `(SELECT user_id, value, since FROM ${tables.members} WHERE since <= ${version} UNION ALL ${past})`;
}

/**
 * What a destination lacks that has the membership of a past version, and users who changed in versions of which it may
 * have a part.
 *
 * @param before - the members in that version
 */
function sinceKnown(
  request: StageRequest,
  { version, upTo }: Known,
  tables: KeyTables,
  before: string,
  dialect: SqlDialect,
): string {
  const { members, history } = tables;
  const isEnd = request.action !== 'backfill';
  const current = hasValues(request) ? 'user_id AS id, value' : 'user_id AS id';
  const value = request.kind === 'audience' ? 'value' : 'NULL::varchar';
  const changes = difference(
    { ...request, action: 'sync' },
    `SELECT ${current} FROM ${members} AS members`,
    before,
    dialect,
  );
  const lacking = isEnd
    ? `SELECT user_id, ${value} AS value, TRUE AS was, FALSE AS now, 1 AS rows FROM ${before} AS members`
    : request.with?.areSent === false
      ? `SELECT * FROM (${changes}) AS changes WHERE NOT (was AND now)`
      : changes;
  if (upTo === version) return lacking;
  const within = (edge: string) => `${edge} > ${version} AND ${edge} <= ${upTo}`;
  const touched = `SELECT user_id FROM ${members} AS members WHERE ${within('since')}
    UNION SELECT user_id${dialect.binary} FROM ${history} AS history
      WHERE key = ${literal(request.key)} AND (${within('since')} OR ${within('until')})`;
  const isMember = isEnd ? 'FALSE' : 'members.user_id IS NOT NULL';
  return `WITH lacking AS (${lacking})
    SELECT * FROM lacking
    UNION ALL SELECT touched.user_id, ${isEnd && request.kind === 'trait' ? 'NULL' : 'members.value'}, ${isMember}, ${isMember}, 1
      FROM (${touched}) AS touched LEFT JOIN ${members} AS members ON members.user_id = touched.user_id
      WHERE NOT EXISTS (SELECT 1 FROM lacking WHERE lacking.user_id = touched.user_id)`;
}

function difference(request: StageRequest, fresh: string, members: string, dialect: SqlDialect): string {
  return hasValues(request)
    ? valueDifference(request, fresh, members, dialect)
    : audienceDifference(request, fresh, members, dialect);
}

/**
 * Rows are not folded by user before the join, which would be the most expensive step. Ids in the snapshot are usable, so
 * only those of newcomers are checked. A sync names only users who change. Of the others, `was` marks those who stay.
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

/**
 * The same with values. Rows that have the known value are folded first, so the greatest value of a user, which counts,
 * is looked up for the few who have others. A user who leaves a trait has no value, one who leaves an audience has the
 * last known columns.
 */
function valueDifference({ action, kind }: StageRequest, fresh: string, members: string, dialect: SqlDialect): string {
  const { binary, opaque, isSame } = dialect;
  // A CASE compares further only where the texts differ.
  const same = (value: string, known: string) =>
    action === 'resync'
      ? 'FALSE'
      : `CASE WHEN ${value} IS NOT DISTINCT FROM ${known} THEN TRUE ELSE ${isSame(value, known)} END`;
  const hasValue = kind === 'trait' ? ' AND (value IS NOT NULL OR id IS NULL)' : '';
  const greatest =
    action === 'resync'
      ? 'SELECT * FROM moved'
      : `SELECT moved.id, CASE WHEN most.id IS NULL THEN moved.value ELSE most.value END AS value, known, was, found, rows
          FROM moved LEFT JOIN (
            SELECT id, max(value${binary}) AS value FROM fresh
            WHERE id IN (SELECT id FROM moved WHERE was AND found) GROUP BY id
          ) AS most ON most.id = moved.id`;
  return `WITH fresh AS MATERIALIZED (${fresh}),
    moved AS MATERIALIZED (
      SELECT id, max(CASE WHEN id IS NOT NULL THEN value END${binary}) AS value,
        max(CASE WHEN id IS NOT NULL THEN known END${binary}) AS known, was, found, count(*) AS rows
      FROM (
        SELECT CASE WHEN members.user_id IS NULL THEN ${usable('fresh.id', dialect)} WHEN fresh.id IS NULL THEN members.user_id
            WHEN ${same('fresh.value', 'members.value')} THEN NULL ELSE fresh.id END AS id,
          fresh.value AS value, members.value AS known, members.user_id IS NOT NULL AS was, fresh.id IS NOT NULL AS found
        FROM fresh FULL JOIN ${members} AS members ON fresh.id = members.user_id${opaque}
      ) AS joined
      GROUP BY id, was, found
    )
    SELECT CASE WHEN was AND now AND ${same('value', 'known')} THEN NULL ELSE id END AS user_id,
      CASE WHEN now THEN value ELSE ${kind === 'trait' ? 'NULL' : 'known'} END AS value, was, now, rows
    FROM (SELECT *, found AND (was OR id IS NOT NULL)${hasValue} AS now FROM (${greatest}) AS greatest) AS told
    WHERE was OR now OR id IS NULL`;
}

/** An audience's definition as (id), unusable ones too. @param id - as `idText` */
export function freshAudience(statement: string, id: string): string {
  return `SELECT ${id} AS id FROM (\n${statement}\n) AS definition`;
}

/**
 * A definition with values as (id, value), unusable ids too. A trait's row whose value is too long counts as one
 * without an id; an audience's member is one without columns then.
 *
 * @param id - as `idText`
 */
export function freshValues(
  statement: string,
  id: string,
  fields: readonly JsonField[],
  kind: ComputedKind,
  dialect: SqlDialect,
): string {
  const nothing = fields.map(({ value }) => `${value} IS NULL`).join(' AND ');
  const short = (column: string) =>
    `CASE WHEN bit_length(value) > ${8 * LONGEST_VALUE} AND length(value) > ${LONGEST_VALUE} THEN NULL ELSE ${column} END AS ${column}`;
  return `SELECT ${kind === 'trait' ? `${short('id')}, value` : `id, ${short('value')}`}
    FROM (
      SELECT ${id} AS id, CASE WHEN ${nothing} THEN NULL ELSE ${dialect.jsonObject(fields)} END AS value
      FROM (\n${statement}\n) AS definition
    ) AS described`;
}

/**
 * The rows of `freshValues`, folded by user: (id, value, rows), and `place` if they have it. Of several rows the
 * greatest value counts, so that reruns agree.
 */
export function foldedValues(fresh: string, kind: ComputedKind, dialect: SqlDialect, place = ''): string {
  const greatest = `max(value${dialect.binary})`;
  const having = kind === 'trait' ? ` HAVING id IS NULL OR ${greatest} IS NOT NULL` : '';
  return `SELECT id, ${greatest} AS value, count(*) AS rows${place && `, min(${place}) AS ${place}`}
    FROM (SELECT ${usable('id', dialect)} AS id, value${place && `, ${place}`} FROM (${fresh}) AS fresh) AS cleaned
    GROUP BY id${having}`;
}

/** The greatest date or time in a column up to `latest`, or else of all, in milliseconds since 1970. */
export function newestValue(statement: string, column: Column, latest: number): string {
  // Casting text to a plain timestamp would drop its offset.
  const isTime = /^(date|timestamp)/i.test(column.type);
  const time = isTime ? name(column.name) : `CAST(${name(column.name)} AS timestamp with time zone)`;
  const known = `max(moment) FILTER (WHERE moment <= ${timestampLiteral(latest)})`;
  return `SELECT CAST(extract(epoch FROM coalesce(${known}, max(moment))) * 1000 AS bigint)
    FROM (SELECT CAST(${time} AS timestamp) AS moment FROM (\n${statement}\n) AS definition) AS times
    WHERE isfinite(moment)`;
}

/** A user id as text; null if it means nobody, unless that is allowed. */
export function idText(userId: string, allowPlaceholders: boolean, { binary }: SqlDialect): string {
  const id = `CAST(${name(userId)} AS varchar)${binary}`;
  return allowPlaceholders ? id : `CASE WHEN NOT ${placeholderSql(id)} THEN ${id} END`;
}

function usable(id: string, dialect: SqlDialect): string {
  return `CASE WHEN ${dialect.unusable(id)} THEN NULL ELSE ${id} END`;
}
