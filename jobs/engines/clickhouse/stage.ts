import { RollcallError } from '../../../src/kernel/errors.ts';
import { PLACEHOLDERS } from '../../../src/kernel/placeholders.ts';
import { latestKnown } from '../freshness.ts';
import { columnsByUse, untellable, valueKeys, withUnnamed } from '../plan/columns.ts';
import { runsDefinition, stagedOf } from '../plan/counts.ts';
import {
  type ChangeBatch,
  type ComputedKind,
  type Definition,
  LONGEST_VALUE,
  type Preview,
  type Snapshot,
  type Staged,
  type StageRequest,
  type TraitColumn,
} from '../port.ts';
import { hasValues, isSilent } from '../sql/plan-query.ts';
import { CLICKHOUSE, singleStatement } from '../sql/statement.ts';
import { type ClickHouse, isIncomplete } from './session.ts';
import { latestStates, readSnapshot, tablesOf } from './tables.ts';
import { bare, idText, isIdType, isReordered, jsonText, jsonType, literal, moment, name, whole } from './types.ts';

/** The rows of a definition, once its columns are known. */
interface DescribedStage {
  /** A query of (id, value): text, null if unusable. */
  readonly fresh: string;
  readonly traits: readonly TraitColumn[];
  readonly newest: string | null;
  readonly unnamed?: readonly string[];
}

interface StagedColumn {
  readonly name: string;
  readonly type: string;
}

/** Runs the definition and writes its comparison with the snapshot into this table; resolves to the counts. */
export async function stageInto(session: ClickHouse, request: StageRequest, table: string): Promise<Staged> {
  return saying(request, async () => {
    const snapshot = await readSnapshot(session, request.key);
    const described = await describedFor(session, request);
    const newest = await newestOf(session, described, request);
    const query = planQuery(request, described?.fresh ?? null, snapshot, session);
    // A repeated run has the same plan name.
    await session.run(`DROP TABLE IF EXISTS ${table}`);
    await session.run(`CREATE TABLE ${table} (n UInt64, user_id Nullable(String), value Nullable(String), was Bool, now Bool,
      same Bool, rows UInt64) ENGINE = MergeTree ORDER BY n`);
    await session.run(`INSERT INTO ${table} ${query}`, request.signal);
    const groups = await session.rows(groupsOf(table), request.signal);
    return counted(request, snapshot, groups, described, newest);
  });
}

/** The same by one query that writes nothing, with the first rows of each kind. */
export async function previewPlan(
  session: ClickHouse,
  request: StageRequest,
  snapshot: Snapshot,
  size: number,
): Promise<Preview> {
  return saying(request, async () => {
    const described = await describedFor(session, request);
    const newest = await newestOf(session, described, request);
    const query = planQuery(request, described?.fresh ?? null, snapshot, session);
    const rows = `groupArraySorted(${Math.max(size, 1)})((n, user_id, now, was, value))`;
    const groups = await session.rows(groupsOf(`(${query})`, `, ${rows}`), request.signal);
    const sample = groups
      .filter(([was, now, folded]) => (was || now) && !folded && !(was && now && isSilent(request)))
      .flatMap((group) => (group[6] as object[]).slice(0, size))
      // Some servers name the fields of a tuple, which then arrives as an object.
      .map((row) => Object.values(row) as [unknown, string, boolean, boolean, string | null])
      .map(([n, ...rest]) => [whole(n), ...rest] as const)
      .sort(([a], [b]) => a - b);
    return { ...counted(request, snapshot, groups, described, newest), sample: toBatch(sample) };
  });
}

export async function traitColumns(session: ClickHouse, definition: Definition): Promise<readonly TraitColumn[]> {
  return saying(definition, async () => {
    const { traits, unnamed } = await describe(session, definition);
    return withUnnamed(traits, unnamed);
  });
}

export async function readChanges(
  session: ClickHouse,
  plan: string,
  after: number,
  limit: number,
): Promise<ChangeBatch> {
  const rows = `SELECT n, user_id, now, was, value FROM ${tablesOf(session).plan(plan)} WHERE user_id IS NOT NULL AND n > ${after}`;
  return toBatch(await session.rows(`${rows} ORDER BY n LIMIT ${limit}`));
}

function toBatch(rows: readonly (readonly unknown[])[]): ChangeBatch {
  return {
    positions: rows.map(([n]) => whole(n)),
    userIds: rows.map(([, user]) => String(user)),
    present: rows.map(([, , now]) => isSet(now)),
    was: rows.map(([, , , was]) => isSet(was)),
    values: rows.map(([, , , , value]) => value as string | null),
  };
}

async function saying<T>({ key, signal }: Definition, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    signal?.throwIfAborted();
    const code = error instanceof RollcallError ? error.code : isIncomplete(error) ? 'source_incomplete' : 'sql_failed';
    const message = error instanceof Error ? error.message : String(error);
    throw new RollcallError(code, `${key}: ${message}`, { cause: error });
  }
}

const describedFor = (session: ClickHouse, request: StageRequest) =>
  runsDefinition(request) ? describe(session, request) : null;

async function newestOf(
  session: ClickHouse,
  described: DescribedStage | null,
  { signal }: Definition,
): Promise<object> {
  if (!described?.newest) return {};
  const [row] = await session.rows(described.newest, signal);
  return { newest: row?.[0] === null || row === undefined ? null : whole(row[0]) };
}

/** @throws RollcallError `column_missing`, `column_type` */
async function describe(session: ClickHouse, definition: Definition): Promise<DescribedStage> {
  const statement = singleStatement(definition.sql, moment(definition.asOf), CLICKHOUSE);
  const found = await session.rows(`DESCRIBE TABLE (\n${statement}\n)`, definition.signal);
  const columns = found.map(([column, type]) => ({ name: String(column), type: String(type) }));
  const { user, fresh, values, ...unnamed } = columnsByUse(definition, columns, ({ type }) => isIdType(type));
  const newest = fresh ? newestQuery(statement, fresh, latestKnown(definition.asOf)) : null;
  const text = idText(name(user.name), user.type);
  const isNobody = `lower(${text}) IN (${PLACEHOLDERS.map(literal).join(', ')})`;
  const id = definition.allowPlaceholders ? text : `if(${isNobody}, NULL, ${text})`;
  const { kind } = definition;
  if (kind === 'audience' && !definition.with?.names.length) {
    return { fresh: `SELECT ${id} AS id, NULL AS value FROM (\n${statement}\n)`, traits: [], newest, ...unnamed };
  }
  const keys = valueKeys(definition, values);
  const fields = values.map((column, place) => fieldOf(column, keys[place] ?? column.name));
  return {
    fresh: valueRows(statement, id, fields, kind),
    traits: fields.map(({ trait }) => trait),
    newest,
    ...unnamed,
  };
}

interface Field {
  /** JSON text, or null. */
  readonly text: string;
  readonly trait: TraitColumn;
}

function fieldOf(column: StagedColumn, key: string): Field {
  const text = jsonText(name(column.name), column.type);
  if (text !== null) return { text, trait: { key, ...jsonType(column.type) } };
  throw untellable({ ...column, type: bare(column.type) });
}

/** A trait's row whose value is too long counts as one without an id, an audience's as one without columns. */
function valueRows(statement: string, id: string, fields: readonly Field[], kind: ComputedKind): string {
  const texts = fields.map(({ text }, place) => `${text} AS field${place}`);
  const nothing = fields.map((_, place) => `field${place} IS NULL`).join(' AND ');
  const pairs = fields.map(
    ({ trait }, place) => `${literal(`${JSON.stringify(trait.key)}:`)}, ifNull(field${place}, 'null')`,
  );
  const object = `concat('{', ${pairs.join(", ',', ")}, '}')`;
  const short = (column: string) => `if(lengthUTF8(ifNull(json, '')) > ${LONGEST_VALUE}, NULL, ${column})`;
  const [row, value] = kind === 'trait' ? [short('user'), 'json'] : ['user', short('json')];
  return `SELECT ${row} AS id, ${value} AS value FROM (
    SELECT user, if(${nothing}, NULL, ${object}) AS json FROM (
      SELECT ${id} AS user, ${texts.join(', ')} FROM (\n${statement}\n)))`;
}

function newestQuery(statement: string, column: StagedColumn, latest: number): string {
  const newest = `ifNull(maxOrNullIf(time, time <= ${moment(latest)}), maxOrNull(time))`;
  return `SELECT toUnixTimestamp64Milli(${newest})
    FROM (SELECT toDateTime64(${name(column.name)}, 3, 'UTC') AS time FROM (\n${statement}\n))`;
}

/**
 * The query of a plan: (n, user_id, value, was, now, same, rows). One aggregation over the rows of the definition and
 * the snapshot, which can spill to disk, while a join's table would have to fit into memory. Unchanged users are folded
 * into one row without an id, and so are rows without a usable id. Members whose columns change without a message have
 * the position 0.
 */
function planQuery(request: StageRequest, fresh: string | null, { version }: Snapshot, session: ClickHouse): string {
  const states = tablesOf(session).states(request.key);
  const known = `SELECT user_id, value, present, version FROM ${states} WHERE version <= ${version}`;
  const compared = version === 0 ? null : known;
  if (!request.known) return comparison(request, fresh, compared, null);
  const { known: past, touched } = pastStates(request, request.known, version, session);
  if (request.action === 'withdraw' || fresh !== null) return comparison(request, fresh, past, touched);
  const members = `SELECT user_id AS id, value FROM (${latestStates(states, version)}) WHERE present`;
  return comparison({ ...request, action: 'sync' }, members, past, touched);
}

/** The members in a past version, and users who changed in versions of which a destination may have a part. */
function pastStates(
  { key }: StageRequest,
  { version, upTo }: NonNullable<StageRequest['known']>,
  current: number,
  session: ClickHouse,
) {
  const tables = tablesOf(session);
  const states = tables.states(key);
  const ended = `FROM ${tables.history} WHERE key = ${literal(key)}`;
  const members = `SELECT user_id, any(value) AS value, true AS present, 1 AS version FROM (
      SELECT user_id, value ${ended} AND since <= ${version} AND until > ${version}
      UNION ALL SELECT user_id, value FROM (${latestStates(states, current)}) WHERE present AND since <= ${version})
    GROUP BY user_id`;
  if (upTo === version) return { known: members, touched: null };
  const within = (edge: string) => `${edge} > ${version} AND ${edge} <= ${upTo}`;
  const touched = `SELECT user_id ${ended} AND (${within('since')} OR ${within('until')})
    UNION DISTINCT SELECT user_id FROM ${states} WHERE ${within('version')}`;
  return { known: `${members} UNION ALL SELECT user_id, NULL, false, 0 FROM (${touched})`, touched };
}

/**
 * @param states - (user_id, value, present, version) of what it is compared with; null for nothing
 * @param touched - users who are named even if nothing has changed
 */
function comparison(
  request: StageRequest,
  fresh: string | null,
  states: string | null,
  touched: string | null,
): string {
  const { action, kind, leavers, onlyLeavers } = request;
  const seen = `SELECT toNullable(id) AS id, CAST(value AS Nullable(String)) AS value, 1 AS fresh, 0 AS present, 0 AS version FROM (${fresh})`;
  const known = `SELECT toNullable(user_id) AS id, value, 0 AS fresh, present, version FROM (${states})`;
  const rows = [...(fresh === null ? [] : [seen]), ...(states === null ? [] : [known])];
  const nobody = `SELECT CAST(NULL AS Nullable(String)) AS id, CAST(NULL AS Nullable(String)) AS value, 0 AS fresh, 0 AS present, 0 AS version WHERE false`;
  const users = `SELECT id, sum(fresh) AS seen, maxIf(value, fresh = 1) AS new_value,
      argMaxIf((value, present), version, fresh = 0) AS latest, tupleElement(latest, 1) AS old_value,
      id IS NOT NULL AND countIf(fresh = 0) > 0 AND tupleElement(latest, 2) = 1 AS was
    FROM (${rows.length === 0 ? nobody : rows.join(' UNION ALL ')}) GROUP BY id`;
  const present = kind === 'trait' ? 'new_value IS NOT NULL' : 'true';
  const now = fresh !== null ? `id IS NOT NULL AND seen > 0 AND ${present}` : action === 'backfill' ? 'was' : 'false';
  const old = kind === 'audience' || action === 'backfill' ? 'if(was, old_value, NULL)' : 'NULL';
  const value = fresh !== null ? `if(now, new_value, ${old})` : old;
  // For a destination that was away, only who enters and leaves counts unless columns are sent.
  const isQuiet = request.known !== undefined && request.with?.areSent === false;
  const isSame =
    hasValues(request) && !isQuiet
      ? `(told = old_value OR (told IS NULL AND old_value IS NULL) OR ${isReordered('told', 'old_value')})`
      : 'true';
  const isNamed = touched === null ? '' : ` AND id NOT IN (${touched})`;
  const stays = action === 'sync' ? `was AND now AND same${isNamed}` : 'false';
  const n = isSilent(request) && !isQuiet ? 'if(was AND now AND user_id IS NOT NULL, 0, position)' : 'position';
  const all = action === 'resync' || touched !== null || (fresh === null && leavers);
  return `SELECT ${n} AS n, user_id, value, was, now, same, rows FROM (
    SELECT row_number() OVER (ORDER BY user_id ASC NULLS LAST) AS position, * FROM (
    SELECT if(stays, NULL, id) AS user_id, if(stays, NULL, told) AS value, was, now, same, sum(greatest(seen, 1)) AS rows FROM (
      SELECT id, seen, CAST(${value} AS Nullable(String)) AS told, was, ${now} AS now,
        was AND now AND ${isSame} AS is_same,
        ifNull(is_same, false) AS same, ${stays} AS stays
      FROM (${users}))
    WHERE ${onlyLeavers ? 'NOT was' : `was OR now OR id IS NULL${all ? ' OR true' : ''}`}
    GROUP BY user_id, value, was, now, same))`;
}

function groupsOf(table: string, more = ''): string {
  return `SELECT was, now, user_id IS NULL AS folded, count(), sum(rows), countIf(NOT same)${more} FROM ${table} GROUP BY was, now, folded`;
}

function counted(
  request: StageRequest,
  snapshot: Snapshot,
  groups: readonly (readonly unknown[])[],
  described: DescribedStage | null,
  newest: object,
): Staged {
  const found = new Map(
    groups.map(([was, now, folded, users, rows, other]) => [group(was, now, folded), { users, rows, other }]),
  );
  const users = (of: string) => whole(found.get(of)?.users ?? 0);
  const rows = (of: string) => whole(found.get(of)?.rows ?? 0);
  const [entered, exited, kept, leavers] = [users('010'), users('100'), users('110'), users('000')];
  return {
    ...stagedOf(request, snapshot, {
      ...{ entered, exited, kept, leavers, invalid: rows('001') },
      changed: runsDefinition(request) ? whole(found.get('110')?.other ?? 0) : 0,
      usable: rows('111') + rows('110') + rows('010'),
    }),
    columns: described?.traits.map(({ key }) => key) ?? request.with?.names ?? [],
    ...newest,
    ...(described?.unnamed && { unnamed: described.unnamed }),
  };
}

const group = (...flags: readonly unknown[]) => flags.map((flag) => (isSet(flag) ? '1' : '0')).join('');
/** Conditions are booleans if read from a table, and numbers if computed. */
const isSet = (flag: unknown) => flag === true || flag === 1;
