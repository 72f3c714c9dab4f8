import { RollcallError } from '../../../src/kernel/errors.ts';
import { refuseRepeated, withUnnamed } from '../plan/columns.ts';
import { runsDefinition, stagedOf } from '../plan/counts.ts';
import type { ChangeBatch, Definition, Funnel, Preview, Snapshot, Staged, StageRequest, TraitColumn } from '../port.ts';
import { compareAll } from './compare.ts';
import { type Described, describe } from './describe.ts';
import { withAuthoredPlace } from './excerpt.ts';
import { type Fresh, hasHashes, hasPlaces, hasValues, type KeyTables, literal, planQueries } from './plan-query.ts';
import { interruptible, type SqlDatabase, type SqlSession } from './session.ts';
import { readStatement } from './statement.ts';
import {
  FRESH_TABLE,
  FUNNEL_TABLE,
  hasColumn,
  previewTable,
  readSnapshot,
  SAMPLE_TABLE,
  tablesOf,
  withoutMissing,
} from './tables.ts';

/** Conditions for rows of a plan that name their user. */
const ENTERED = 'now AND NOT was';
const EXITED = 'was AND NOT now';
const KEPT = 'was AND now AND n >= 0';
const LEAVERS = 'NOT was AND NOT now';

/** The counts and a few rows of each kind, from tables that are rolled back. */
export async function previewPlan(
  database: SqlDatabase,
  request: StageRequest,
  sampleSize: number,
  times: number,
): Promise<Preview> {
  const { session } = database;
  await session.run('BEGIN');
  try {
    return await interruptible(session, request.signal, async (obeying) => {
      const table = previewTable(request.plan);
      const own = { ...database, session: obeying };
      const { funnel } = request;
      if (funnel) await ofDefinition(own, request, (noting) => findPeople(noting, request, funnel.people));
      const staged = await stagePlan(own, funnel ? { ...request, sql: funnel.sql } : request, table, times);
      const counts = funnel && { funnel: await countPeople(obeying, funnel) };
      const sample = await sampleOf(obeying, table, sampleSize);
      const evidence = funnel?.evidence && { evidence: await evidenceOf(obeying, request, funnel.evidence, sample) };
      const compared = request.compare && { compared: await compareAll(own, request, table, request.compare) };
      return { ...staged, ...counts, ...evidence, ...compared, sample };
    });
  } finally {
    await session.run('ROLLBACK');
  }
}

async function findPeople({ session }: SqlDatabase, { asOf }: Definition, people: string): Promise<void> {
  const statement = readStatement(await withoutMissing(session, people), asOf);
  await session.run(`CREATE TEMPORARY TABLE ${FUNNEL_TABLE} AS ${statement}`);
}

async function countPeople(session: SqlSession, { counts }: Funnel): Promise<readonly number[]> {
  const all = counts.map((condition) => `count(*) FILTER (WHERE ${condition})`);
  const [found = []] = await session.rows(`SELECT ${all.join(', ')} FROM ${FUNNEL_TABLE}`);
  return found.map(Number);
}

async function evidenceOf(
  session: SqlSession,
  { asOf }: Definition,
  evidence: string,
  { userIds }: ChangeBatch,
): Promise<readonly unknown[][]> {
  await session.run(`CREATE TEMPORARY TABLE ${SAMPLE_TABLE} (user_id varchar)`);
  if (userIds.length > 0)
    await session.run(`INSERT INTO ${SAMPLE_TABLE} VALUES ${userIds.map((user) => `(${literal(user)})`).join(', ')}`);
  return session.rows(readStatement(await withoutMissing(session, evidence), asOf));
}

async function sampleOf(session: SqlSession, table: string, size: number): Promise<ChangeBatch> {
  const some = (condition: string) =>
    `(SELECT n, user_id, now, was, value FROM ${table} WHERE user_id IS NOT NULL AND n > 0 AND ${condition} LIMIT ${size})`;
  const all = [ENTERED, EXITED, 'was = now'].map(some).join(' UNION ALL ');
  return readBatch(session, `SELECT * FROM (${all}) AS sample ORDER BY n`, 3 * size);
}

/**
 * Runs the definition and writes its comparison with the snapshot into this table.
 *
 * @param times - as many parts as this times the usual
 */
export function stagePlan(database: SqlDatabase, request: StageRequest, table: string, times: number): Promise<Staged> {
  return ofDefinition(database, request, (noting) => computePlan(noting, request, table, times));
}

async function computePlan(
  database: SqlDatabase,
  request: StageRequest,
  table: string,
  times: number,
): Promise<Staged> {
  const { session, dialect } = database;
  const snapshot = request.compare ? { version: 0, members: 0 } : await readSnapshot(database, request.key);
  const { members, leavers, history } = tablesOf(session);
  const present = members(request.key);
  const tables: KeyTables =
    snapshot.version === 0
      ? { members: null, leavers: null, history }
      : {
          members: hasValues(request) || request.known ? await withHashes(database, present) : present,
          leavers: leavers(request.key),
          history,
        };
  const isKept = table.includes('.');
  const { fresh, traits, newest, unnamed } = await freshRows(database, request);
  // Queried first: rows written in the meantime make the result newer than reported, never older.
  const freshness = newest === null ? {} : { newest: await newestOf(session, newest) };
  const more = [
    ...(hasHashes(request) ? ['hash bigint', ...(snapshot.version > 0 ? ['known varchar', 'since bigint'] : [])] : []),
    ...(hasPlaces(request.action, snapshot.version) ? ['place bigint'] : []),
  ];
  const parts = times * (await partsOf(database, snapshot, request.isRead ? fresh : null));
  const compareWith = async (rows: Fresh) => {
    const [query, ...others] = planQueries(request, rows, tables, dialect, { table, parts });
    const begin = isKept ? dialect.keep(table, query, more) : [`CREATE TEMPORARY TABLE ${table} AS ${query}`];
    for (const statement of [...begin, ...others.map((other) => `INSERT INTO ${table} ${other}`)])
      await session.run(statement);
    const counted = () => count(session, request, table, snapshot);
    const counts = await counted();
    if (!hasHashes(request) || counts.action !== 'sync' || counts.changed + (counts.silent ?? 0) === 0) return counts;
    // In a statement of its own, since DuckDB takes 30 ms to prepare the condition.
    const stays = `${KEPT} AND user_id IS NOT NULL AND ${dialect.isSame('value', 'known')}`;
    return (await session.run(`UPDATE ${table} SET n = -1 WHERE ${stays}`)) > 0 ? counted() : counts;
  };
  const repeatable = parts > 1 && runsDefinition(request) && !request.isRead ? await readOnce(session, fresh) : fresh;
  let counts = await compareWith(repeatable);
  const { action, duplicates, changed, silent = 0 } = counts;
  if (hasHashes(request) && action === 'sync' && !fresh.mayRepeat && duplicates > 0 && changed + silent > 0) {
    // A changed row may stand next to one that is as it was. To look for those always costs a third more.
    await session.run(`DROP TABLE ${table}`);
    counts = await compareWith({ ...repeatable, mayRepeat: true });
  }
  if (repeatable !== fresh) await session.run(`DROP TABLE ${FRESH_TABLE}`);
  const columns = runsDefinition(request) ? traits.map(({ key }) => key) : (request.with?.names ?? []);
  return { ...counts, columns, ...freshness, ...(unnamed && { unnamed }) };
}

/**
 * The parts in which a plan is computed, so that memory stays flat however many members there are. The rows of a
 * definition that runs here are not known before.
 */
async function partsOf(
  { session, dialect: { parts } }: SqlDatabase,
  { members }: Snapshot,
  read: Fresh | null,
): Promise<number> {
  if (parts === null || (members === 0 && read === null)) return 1;
  const rows = read === null ? '0' : `(SELECT count(*) FROM (${read.rows}) AS fresh)`;
  const [[count] = []] = await session.rows(`SELECT ceil(greatest(${members}, ${rows}) / (${parts.most}))`);
  return Math.max(1, Number(count));
}

/** Runs a definition once for all parts: it may take long, or return other rows the next time. */
async function readOnce(session: SqlSession, fresh: Fresh): Promise<Fresh> {
  await session.run(`CREATE TEMPORARY TABLE ${FRESH_TABLE} AS ${fresh.rows}`);
  return { ...fresh, rows: `FROM ${FRESH_TABLE}` };
}

async function withHashes({ session, dialect }: SqlDatabase, members: string): Promise<string> {
  const hash = (await hasColumn(session, members, 'hash')) ? '' : ', NULL::bigint AS hash';
  return `(SELECT *, ${dialect.place} AS place${hash} FROM ${members} AS present)`;
}

async function newestOf(session: SqlSession, query: string): Promise<number | null> {
  const [row] = await session.rows(query);
  const newest = row?.[0] ?? null;
  return newest === null ? null : Number(newest);
}

/** Does work with a definition. Its errors name the audience, and the place in the definition. */
async function ofDefinition<T>(
  database: SqlDatabase,
  definition: Definition,
  work: (database: SqlDatabase) => Promise<T>,
): Promise<T> {
  let asked = '';
  const noted = <A extends readonly unknown[], R>(statement: (sql: string, ...rest: A) => R) => {
    return (sql: string, ...rest: A) => {
      asked = sql;
      return statement(sql, ...rest);
    };
  };
  const { rows, run, columns } = database.session;
  const session = { ...database.session, rows: noted(rows), run: noted(run), columns: noted(columns) };
  try {
    return await work({ ...database, session });
  } catch (error) {
    throw await definitionError(database, definition, error, asked);
  }
}

async function definitionError(
  { dialect, emptySource = async () => null }: SqlDatabase,
  definition: Definition,
  cause: unknown,
  asked: string,
): Promise<RollcallError> {
  const { key, sql } = definition;
  if (cause instanceof RollcallError) return new RollcallError(cause.code, `${key}: ${cause.message}`, { cause });
  const error = cause instanceof Error ? cause : new Error(String(cause));
  const empty = await emptySource(error, sql);
  const code = empty !== null || dialect.isIncomplete(error) ? 'source_incomplete' : 'sql_failed';
  const message = withAuthoredPlace(error, definition, asked);
  return new RollcallError(code, `${key}: ${empty === null ? '' : `${empty}. `}${message}`, { cause });
}

function freshRows(database: SqlDatabase, request: StageRequest): Promise<Described> | Described {
  const none = { rows: '', columns: [], value: '', mayRepeat: false };
  return runsDefinition(request) ? described(database, request) : { fresh: none, traits: [], newest: null };
}

async function described({ session, dialect }: SqlDatabase, definition: Definition): Promise<Described> {
  const statement = readStatement(await withoutMissing(session, definition.sql), definition.asOf);
  const columns = await session.columns(`SELECT * FROM (\n${statement}\n) AS definition LIMIT 0`);
  const written = columns.some(({ name }) => /_\d+$/.test(name)) ? dialect.writtenNames(statement) : null;
  const names =
    written === null ? columns.map(({ name }) => name) : (await session.rows(written)).map(([name]) => String(name));
  refuseRepeated(definition, names, written === null);
  return describe(definition, statement, columns, dialect);
}

export function traitColumns(database: SqlDatabase, definition: Definition): Promise<readonly TraitColumn[]> {
  return ofDefinition(database, definition, async (noting) => {
    const { traits, unnamed } = await described(noting, definition);
    return withUnnamed(traits, unnamed);
  });
}

async function count(session: SqlSession, request: StageRequest, table: string, snapshot: Snapshot) {
  const counts = [ENTERED, EXITED, KEPT, LEAVERS].map(
    (users) => `count(*) FILTER (WHERE user_id IS NOT NULL AND ${users})`,
  );
  const sums = ['user_id IS NULL AND NOT was AND NOT now', 'now AND (was OR user_id IS NOT NULL)'].map(
    (rows) => `CAST(coalesce(sum(rows) FILTER (WHERE ${rows}), 0) AS bigint)`,
  );
  const [found = []] = await session.rows(`SELECT ${[...counts, ...sums].join(', ')} FROM ${table}`);
  const [entered = 0, exited = 0, kept = 0, leavers = 0, invalid = 0, usable = 0] = found.map(Number);
  const changed = request.action === 'sync' ? kept : await changedByResync(session, request, table, snapshot);
  return stagedOf(request, snapshot, { entered, exited, kept, changed, leavers, invalid, usable });
}

/** A resync's plan doesn't tell members with another value from the others. */
async function changedByResync(
  session: SqlSession,
  request: StageRequest,
  table: string,
  { version }: Snapshot,
): Promise<number> {
  const { action, key } = request;
  if (action !== 'resync' || !hasValues(request) || version === 0) return 0;
  const [[changed] = []] = await session.rows(`SELECT count(*) FROM ${table} AS planned
    JOIN ${tablesOf(session).members(key)} AS members ON members.user_id = planned.user_id
    WHERE planned.was AND planned.now AND planned.value IS DISTINCT FROM members.value`);
  return Number(changed);
}

/** At most `limit` rows of a plan after position `after`; fewer if values are long. */
export async function readChanges(
  session: SqlSession,
  plan: string,
  after: number,
  limit: number,
  hasValues: boolean,
): Promise<ChangeBatch> {
  const rows = (columns: string, from: number) =>
    `SELECT ${columns} FROM ${tablesOf(session).plan(plan)} WHERE user_id IS NOT NULL AND n > ${from}`;
  const page = async (from: number) => {
    const sizes = `${rows('n, bit_length(value) AS bits', from)} AND n <= ${from + limit}`;
    const to = hasValues ? await lastThatFits(session, sizes, from + limit) : from + limit;
    return readBatch(session, `${rows('n, user_id, now, was, value', from)} AND n <= ${to} ORDER BY n`, limit);
  };
  // The bounded range reads no further than it must; forgotten users may have left it empty.
  const near = await page(after);
  if (near.positions.length > 0) return near;
  const [[next] = []] = await session.rows(rows('min(n)', after));
  return next === null || next === undefined ? near : page(Number(next) - 1);
}

/** About the most bits of values to read at once. */
const PAGE_BITS = 8 * 16_000_000;

/** @param sizes - a query for positions and the sizes of their values */
async function lastThatFits(session: SqlSession, sizes: string, end: number): Promise<number> {
  const [[all] = []] = await session.rows(`SELECT sum(bits) FROM (${sizes}) AS sizes`);
  if (Number(all ?? 0) <= PAGE_BITS) return end;
  let bits = 0;
  let last: number | null = null;
  for (const [n, size] of await session.rows(`${sizes} ORDER BY n`)) {
    bits += Number(size ?? 0);
    if (last !== null && bits > PAGE_BITS) return last;
    last = Number(n);
  }
  return end;
}

/** Reading more rows than this costs less by column. */
const FEW = 1_000;

/** @param most - the most rows that there may be */
async function readBatch(session: SqlSession, sql: string, most: number): Promise<ChangeBatch> {
  if (most > FEW) return toBatch(await session.byColumn(sql));
  const rows = await session.rows(sql);
  return toBatch([0, 1, 2, 3, 4].map((column) => rows.map((row) => row[column])));
}

function toBatch([positions, userIds, present, was, values]: readonly unknown[][]): ChangeBatch {
  return {
    positions: positions as number[],
    userIds: userIds as string[],
    present: present as boolean[],
    was: was as boolean[],
    values: values as (string | null)[],
  };
}
