import { placeholderSql } from '../../../src/kernel/placeholders.ts';
import {
  type Action,
  type ComputedKind,
  type Definition,
  LONGEST_VALUE,
  type StageRequest,
  type TraitColumn,
} from '../port.ts';
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
  /** A bigint that tells arguments of `jsonObject` from others. It may be another one in another version of the database. */
  hash(values: readonly string[], seed: number): string;
  isIdType(type: string): boolean;
  /** A query for the names of a statement's columns, if a subquery renames those that are named alike; null if not. */
  writtenNames(statement: string): string | null;
  /** Numbers rows by user id, those without one last. */
  numbered(rows: string): string;
  /** True if a file that the definition reads is half written or cut off. */
  isIncomplete(error: Error): boolean;
  /** Makes text compare by its bytes, whatever its collation. */
  readonly binary: string;
  /** The same for columns of definitions, if none of our own have a collation. */
  readonly binaryOfOthers?: string;
  /** The column of a row's place in its table. */
  readonly place: string;
  /** The beginning of an id that members are indexed by; the whole id if there is no index. */
  prefix(id: string): string;
  /**
   * Ends a subquery that the planner must not see into: it would expect as many groups as there are unchanged users,
   * and sort them all.
   */
  readonly opaque: string;
  /**
   * A hash of ids that never changes, as an expression and of one id. A column of them is scanned ten times faster than
   * ids. Null if ids are indexed.
   */
  readonly idHash: { readonly sql: (id: string) => string; readonly of: (id: string) => bigint } | null;
  /**
   * The members that may be compared at once, as a query, and a condition for the ids of a part of them. Null if memory
   * doesn't grow with them.
   */
  readonly parts: {
    readonly most: string;
    readonly isIn: (id: string, part: number, parts: number) => string;
    /** True if a plan failed for which smaller parts may do. */
    isTooLarge(error: unknown): boolean;
  } | null;
  /**
   * Statements that make the table of a plan and fill it with the rows of its query.
   *
   * @param more - columns with their types, behind those of all plans
   */
  keep(table: string, query: string, more: readonly string[]): readonly string[];
}

/** The rows of a definition. */
export interface Fresh {
  /** A query of (id), ids as they are, or of (id, hash) and columns. */
  readonly rows: string;
  readonly columns: readonly string[];
  /** The value, made of these columns. */
  readonly value: string;
  /** True if a member's known value is looked for among further rows of that user. */
  readonly mayRepeat: boolean;
}

export interface KeyTables {
  /** (user_id, value, since), and (hash, place) if there are values; null while there is no snapshot. */
  readonly members: string | null;
  /** (user_id, since): users who left and have not returned. */
  readonly leavers: string | null;
  /** (key, user_id, value, since, until): past states of members. */
  readonly history: string;
}

/** From here on, fifteen digits round to a number that JSON readers take for infinity. */
export const DOUBLE_LIMIT = '1.797693134862315e308';

export const NO_ROWS =
  '(SELECT NULL::varchar AS user_id, NULL::varchar AS value, 0 AS since, NULL::bigint AS hash WHERE false)';

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

/** True if the rows of a plan have the hashes of their values. */
export const hasHashes = (request: StageRequest) =>
  hasValues(request) && (request.action === 'sync' || request.action === 'resync');

/**
 * The query of a plan: (n, user_id, value, was, now, rows), with `hash` if there are hashes, and `place` for a first
 * one. Later ones with hashes have the value that the snapshot has, `known`, and its `since`. Unchanged users are folded
 * into one row without an id, and so are rows without a usable id. One pass over the data then gives the changes and all
 * counts. Members whose columns change without a message have the position 0, after which no page begins. Those who only
 * lack their hash in the snapshot have the position -1.
 */
function planQuery(request: StageRequest, fresh: Fresh, tables: KeyTables, dialect: SqlDialect): string {
  const isFirst =
    tables.members === null && !request.known && (request.action === 'sync' || request.action === 'resync');
  if (isFirst) return firstRows(request, fresh, dialect);
  const rows = dialect.numbered(planRows(request, fresh, tables, dialect));
  if (!hasHashes(request)) return rows;
  const silent = isSilent(request) ? 'WHEN was AND now THEN 0 ' : '';
  return `SELECT CASE WHEN lacks_hash THEN -1 ${silent}ELSE n END AS n, user_id, value, was, now, rows, hash, known, since
    FROM (${rows}) AS numbered`;
}

/**
 * The queries of a plan, of which each compares a part of the ids: a join needs memory for as many as it compares. Those
 * after the first one count on from the positions in the plan's table.
 */
export function planQueries(
  request: StageRequest,
  fresh: Fresh,
  tables: KeyTables,
  dialect: SqlDialect,
  { table, parts }: { readonly table: string; readonly parts: number },
): readonly [string, ...string[]] {
  const { isIn } = dialect.parts ?? {};
  if (parts === 1 || !isIn) return [planQuery(request, fresh, tables, dialect)];
  const query = (part: number) => {
    const within = <T extends string | null>(rows: T, id = 'user_id') =>
      rows && `(SELECT * FROM ${rows} AS whole WHERE ${isIn(id, part, parts)})`;
    const { members, leavers, history } = tables;
    const ofPart = { members: within(members), leavers: within(leavers), history: within(history) };
    return planQuery(request, { ...fresh, rows: `FROM ${within(`(${fresh.rows})`, 'id')}` }, ofPart, dialect);
  };
  // Not the positions -1 of rows that change nothing: the next part would begin at 0, which is never sent.
  const last = `(SELECT coalesce(max(n) FILTER (WHERE n > 0), 0) FROM ${table})`;
  const later = (part: number) =>
    `SELECT * REPLACE (CAST(CASE WHEN n > 0 THEN n + ${last} ELSE n END AS integer) AS n) FROM (${query(part)}) AS later`;
  return [query(0), ...Array.from({ length: parts - 1 }, (_, place) => later(place + 1))];
}

/** True if members whose columns alone have changed get no message. */
export const isSilent = ({ action, with: columns }: StageRequest) => action === 'sync' && columns?.areSent === false;

export const hasValues = ({ kind, with: columns }: Definition) => kind === 'trait' || columns !== undefined;

/** Without a snapshot there is nothing to compare with. Constant columns are added after sorting. */
function firstRows(request: StageRequest, { rows, value }: Fresh, dialect: SqlDialect): string {
  const placed = (columns: string) => `SELECT ${columns}, row_number() OVER () AS place FROM (${rows}) AS fresh`;
  const [columns, users] = hasValues(request)
    ? [
        ['value', 'hash, place'],
        `SELECT id AS user_id, value, hash, rows, place
           FROM (${foldedValues(placed(`id, hash, ${value} AS value`), request.kind, dialect, true)}) AS folded`,
      ]
    : [
        ['NULL::varchar', 'place'],
        `SELECT id AS user_id, count(*) AS rows, min(place) AS place
           FROM (SELECT ${usable('id', dialect)} AS id, place FROM (${placed('id')}) AS placed) AS cleaned GROUP BY id`,
      ];
  return `SELECT n, user_id, ${columns[0]} AS value, FALSE AS was, user_id IS NOT NULL AS now, rows, ${columns[1]}
    FROM (${dialect.numbered(users)}) AS users`;
}

function planRows(request: StageRequest, fresh: Fresh, tables: KeyTables, dialect: SqlDialect): string {
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
        UNION ALL SELECT user_id, NULL, FALSE, FALSE, 1${hasValues(request) ? ', NULL, FALSE, NULL, NULL' : ''} FROM ${leavers} AS leavers
          WHERE NOT EXISTS (SELECT 1 FROM difference WHERE difference.user_id = leavers.user_id)`;
    case 'sync':
      return difference(request, fresh, members, dialect);
  }
}

type Known = NonNullable<StageRequest['known']>;

/** The members in a past version, as the table of members. */
function membersAt(version: number, { key }: StageRequest, tables: KeyTables, { binary }: SqlDialect): string {
  const past = `SELECT user_id${binary} AS user_id, value, since, NULL::bigint AS hash, user_id AS place FROM ${tables.history}
    WHERE key = ${literal(key)} AND since <= ${version} AND until > ${version}`;
  if (tables.members === null) return `(${past})`;
  return `(SELECT user_id, value, since, hash, user_id AS place FROM ${tables.members} AS present WHERE since <= ${version} UNION ALL ${past})`;
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
  const current = hasValues(request) ? 'user_id AS id, value, hash' : 'user_id AS id';
  const value = request.kind === 'audience' ? 'value' : 'NULL::varchar';
  const stays = `lacks_hash OR was AND now AND coalesce(${dialect.isSame('value', 'known')}, FALSE)`;
  const ofValues = request.with?.areSent === false ? 'NOT (was AND now)' : `NOT (${stays})`;
  const isSent = hasValues(request) ? ofValues : 'TRUE';
  const changes = difference(
    { ...request, action: 'sync' },
    { rows: `SELECT ${current} FROM ${members} AS members`, columns: ['value'], value: 'value', mayRepeat: false },
    before,
    dialect,
  );
  const lacking = isEnd
    ? `SELECT user_id, ${value} AS value, TRUE AS was, FALSE AS now, 1 AS rows FROM ${before} AS members`
    : `SELECT user_id, value, was, now, rows FROM (${changes}) AS changes WHERE ${isSent}`;
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

function difference(request: StageRequest, fresh: Fresh, members: string, dialect: SqlDialect): string {
  return hasValues(request)
    ? valueDifference(request, fresh, members, dialect)
    : audienceDifference(request, fresh.rows, members, dialect);
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
 * The same with values, which are only made and compared where the hash differs from the member's. Of several rows of a
 * user the greatest value counts, also if another row has the known hash. A user who leaves a trait has no value, one
 * who leaves an audience has the last known columns.
 */
function valueDifference(
  { action, kind }: StageRequest,
  { rows, columns, value, mayRepeat }: Fresh,
  members: string,
  dialect: SqlDialect,
): string {
  const { binary, opaque } = dialect;
  const isResync = action === 'resync';
  // A condition for all would be computed of all rows, before they are folded.
  const [hasValue, isSaid] =
    kind === 'trait' ? [' AND (value IS NOT NULL OR id IS NULL)', ' WHERE was OR now OR id IS NULL'] : ['', ''];
  const repeated = mayRepeat
    ? `SELECT DISTINCT place FROM joined WHERE id IS NULL AND was
        AND place IN (SELECT place FROM moved WHERE id IS NOT NULL AND was AND found)`
    : 'SELECT place FROM moved WHERE FALSE';
  // Aggregates cost less of the few rows that moved.
  const filter = ' FILTER (WHERE moved)';
  return `WITH joined AS ${mayRepeat ? '' : 'NOT '}MATERIALIZED (
      SELECT CASE WHEN moved THEN id END AS id, CASE WHEN moved AND found AND id IS NOT NULL THEN ${value} END AS value,
        hash, was, found, place, moved
      FROM (
        SELECT CASE WHEN members.user_id IS NULL THEN ${usable('fresh.id', dialect)} ELSE members.user_id END AS id,
          members.user_id IS NOT NULL AS was, fresh.id IS NOT NULL AS found, members.place,
          ${isResync ? 'TRUE' : 'coalesce(fresh.hash <> members.hash, TRUE)'} AS moved,
          ${['hash', ...columns].map((column) => `fresh.${column}`).join(', ')}
        FROM (${rows}) AS fresh FULL JOIN ${members} AS members ON fresh.id = members.user_id${opaque}
      ) AS compared
    ),
    moved AS MATERIALIZED (
      SELECT id, ${greatest(kind, dialect)}${filter} AS value, ${oneHash(filter)}, was, found,
        min(place)${filter} AS place, count(*) AS rows
      FROM joined GROUP BY id, was, found
    ),
    known AS (
      SELECT place, value, since FROM ${members} AS members
      WHERE place IN (SELECT place FROM moved WHERE id IS NOT NULL AND was${isResync ? ' AND NOT found' : ''})
    ),
    repeated AS (${repeated}),
    told AS (
      SELECT *, found AND (was OR id IS NOT NULL)${hasValue} AS now
      FROM (
        SELECT moved.id, known.value AS known, known.since, was, found, rows,
          CASE WHEN repeated.place IS NULL THEN moved.value ELSE greatest(moved.value${binary}, known.value${binary}) END AS value,
          CASE WHEN repeated.place IS NULL THEN moved.hash END AS hash
        FROM moved LEFT JOIN known ON known.place = moved.place LEFT JOIN repeated ON repeated.place = moved.place
      ) AS greatest
    )
    SELECT CASE WHEN lacks_hash OR NOT stays THEN id END AS user_id,
      CASE WHEN now THEN value ELSE ${kind === 'trait' ? 'NULL' : 'known'} END AS value, was, now, rows, hash, lacks_hash,
      known, since
    FROM (
      SELECT *, stays AND id IS NOT NULL AND hash IS NOT NULL AS lacks_hash
      FROM (SELECT *, ${isResync ? 'FALSE' : 'was AND now AND value IS NOT DISTINCT FROM known'} AS stays FROM told) AS compared
    ) AS hashed${isSaid}`;
}

/** The hash of a user's rows; null if their values differ. */
const oneHash = (filter = '') =>
  `CASE WHEN min(hash)${filter} = max(hash)${filter} THEN min(hash)${filter} END AS hash`;

/** An audience's definition as (id), unusable ones too. @param id - as `idText` */
export function freshAudience(statement: string, id: string, hasHash: boolean): Fresh {
  return {
    rows: `SELECT ${id} AS id${hasHash ? ', CAST(NULL AS bigint) AS hash' : ''} FROM (\n${statement}\n) AS definition`,
    columns: [],
    value: 'NULL',
    mayRepeat: false,
  };
}

const IS_LONG = `bit_length(value) > ${8 * LONGEST_VALUE} AND length(value) > ${LONGEST_VALUE}`;

/** The JSON of a row; null if all of its fields are. */
export function jsonOf(fields: readonly JsonField[], dialect: SqlDialect): string {
  const nothing = fields.map(({ value }) => `${value} IS NULL`).join(' AND ');
  return `CASE WHEN ${nothing} THEN NULL ELSE ${dialect.jsonObject(fields)} END`;
}

/**
 * A trait's definition as (id, value), unusable ids too. A row whose value is too long counts as one without an id.
 *
 * @param id - as `idText`
 */
export function freshValues(statement: string, id: string, fields: readonly JsonField[], dialect: SqlDialect): string {
  return `SELECT CASE WHEN ${IS_LONG} THEN NULL ELSE id END AS id, value
    FROM (SELECT ${id} AS id, ${jsonOf(fields, dialect)} AS value FROM (\n${statement}\n) AS definition) AS described`;
}
/** Of several rows of a user the greatest value counts, so that reruns agree. An audience leaves out long columns. */
function greatest(kind: ComputedKind, { binary }: SqlDialect): string {
  return kind === 'trait' ? `max(value${binary})` : `max(CASE WHEN ${IS_LONG} THEN NULL ELSE value END${binary})`;
}

/**
 * The rows of `freshValues`, folded by user: (id, value, rows).
 *
 * @param hasPlace - true if they have `place` and `hash`, and the result too
 */
export function foldedValues(fresh: string, kind: ComputedKind, dialect: SqlDialect, hasPlace = false): string {
  const value = greatest(kind, dialect);
  const having = kind === 'trait' ? ` HAVING id IS NULL OR ${value} IS NOT NULL` : '';
  return `SELECT id, ${value} AS value, count(*) AS rows${hasPlace ? `, ${oneHash()}, min(place) AS place` : ''}
    FROM (SELECT ${usable('id', dialect)} AS id, value${hasPlace ? ', hash, place' : ''} FROM (${fresh}) AS fresh) AS cleaned
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
export function idText(
  userId: string,
  allowPlaceholders: boolean,
  { binary, binaryOfOthers = binary }: SqlDialect,
): string {
  const id = `CAST(${name(userId)} AS varchar)${binaryOfOthers}`;
  return allowPlaceholders ? id : `CASE WHEN NOT ${placeholderSql(id)} THEN ${id} END`;
}

function usable(id: string, dialect: SqlDialect): string {
  return `CASE WHEN ${dialect.unusable(id)} THEN NULL ELSE ${id} END`;
}
