import { createHash } from 'node:crypto';
import { RollcallError } from '../../src/errors.ts';
import { describe } from './describe.ts';
import { type Column, type Dialect, literal, planQuery, type Tables } from './plan-sql.ts';
import type { ChangeBatch, Engine, Preview, Snapshot, Staged, StageRequest, Standing } from './port.ts';
import { readStatement } from './statement.ts';

/** One session of a database. */
export interface Session {
  /** Rows as arrays; `texts` is the statement's `$1`, a list of text. */
  rows(sql: string, texts?: readonly string[]): Promise<unknown[][]>;
  /** As `rows`, by column: the way to read much. */
  byColumn(sql: string): Promise<unknown[][]>;
  /** Runs a statement; resolves to the number of rows it wrote. */
  run(sql: string): Promise<number>;
  /** The columns that a query would return. */
  columns(query: string): Promise<readonly Column[]>;
  /** Has the statement that is running fail. */
  interrupt(): void;
  close(): Promise<void>;
}

/** What an SQL engine adds to the common statements. */
export interface SqlDatabase {
  readonly dialect: Dialect;
  readonly session: Session;
  /** False where nothing may be written: plans then are temporary tables. */
  readonly writable: boolean;
  /** Statements that make these tables fast to use, once they are filled. */
  readonly tuned: {
    plan(table: string): readonly string[];
    members(table: string): readonly string[];
  };
}

const REGISTRY = [
  `CREATE TABLE IF NOT EXISTS rollcall.snapshots (key varchar NOT NULL, version bigint NOT NULL, members bigint NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS rollcall.plans (plan varchar NOT NULL, key varchar NOT NULL, leased_at bigint NOT NULL, staged varchar NOT NULL)`,
];

/** The engine port over any SQL database that has `FULL JOIN` and transactions around `CREATE TABLE`. */
export function createSqlEngine(database: SqlDatabase): Engine {
  const { session } = database;
  let prepared = false;

  async function prepare(): Promise<void> {
    if (prepared || !database.writable) return;
    await createRegistry(session);
    prepared = true;
  }

  return {
    async snapshot(key) {
      await prepare();
      return readSnapshot(database, key);
    },
    async stage(request) {
      await prepare();
      return interruptible(session, request.signal, () =>
        transaction(session, async () => {
          await dropLeftovers(session, request);
          const table = planTable(request.plan);
          const staged = await stageInto(database, request, table);
          for (const statement of database.tuned.plan(table)) await session.run(statement);
          await session.run(
            `INSERT INTO rollcall.plans VALUES (${literal(request.plan)}, ${literal(request.key)}, ${request.leasedAt}, ${literal(JSON.stringify(staged))})`,
          );
          return staged;
        }),
      );
    },
    async preview(request, sampleSize) {
      return interruptible(session, request.signal, () => preview(database, request, sampleSize));
    },
    async staged(plan) {
      await prepare();
      return readStaged(database, plan);
    },
    async changes(plan, after, limit) {
      const rows = `SELECT n, user_id, now, value FROM ${planTable(plan)} WHERE user_id IS NOT NULL AND n > ${after}`;
      // The bounded range reads no further than it must; forgotten users may have left it empty.
      const near = toBatch(await session.byColumn(`${rows} AND n <= ${after + limit} ORDER BY n`));
      if (near.positions.length > 0) return near;
      return toBatch(await session.byColumn(`${rows} ORDER BY n LIMIT ${limit}`));
    },
    async commit(plan) {
      await prepare();
      const staged = await readStaged(database, plan);
      if (!staged) throw new RollcallError('snapshot_lost', `The plan ${plan} is gone from its engine.`);
      await transaction(session, () => commit(database, staged));
    },
    async discard(plan) {
      await prepare();
      await transaction(session, () => dropPlan(session, plan));
    },
    async lookup(key, users, plan) {
      await prepare();
      const standings = await lookup(database, key, users);
      if (plan === undefined) return standings;
      return new Map([...standings, ...(await lookupPlan(database, plan, users))]);
    },
    async forget(users, keys = null) {
      await prepare();
      await transaction(session, () => forget(session, users, keys));
    },
    close: () => session.close(),
  };
}

async function preview(database: SqlDatabase, request: StageRequest, sampleSize: number): Promise<Preview> {
  const { session } = database;
  const table = `preview_${suffix(request.plan)}`;
  await session.run('BEGIN');
  try {
    const staged = await stageInto(database, request, table);
    const some = (condition: string) =>
      `(SELECT n, user_id, now, value FROM ${table} WHERE user_id IS NOT NULL AND ${condition} LIMIT ${sampleSize})`;
    const sample = await session.byColumn(
      `SELECT * FROM (${some('now AND NOT was')} UNION ALL ${some('was AND NOT now')} UNION ALL ${some('was = now')}) AS sample ORDER BY n`,
    );
    return { ...staged, sample: toBatch(sample) };
  } finally {
    await session.run('ROLLBACK');
  }
}

async function stageInto(database: SqlDatabase, request: StageRequest, table: string): Promise<Staged> {
  const { session, dialect } = database;
  const snapshot = await readSnapshot(database, request.key);
  const tables: Tables =
    snapshot.version === 0
      ? { members: null, leavers: null }
      : { members: membersTable(request.key), leavers: leaversTable(request.key) };
  const temporary = table.includes('.') ? '' : 'TEMPORARY ';
  try {
    const { fresh, columns } = await freshRows(database, request);
    request.signal?.throwIfAborted();
    await session.run(`CREATE ${temporary}TABLE ${table} AS ${planQuery(request, fresh, tables, dialect)}`);
    return { ...(await count(session, request, table, snapshot)), columns };
  } catch (error) {
    throw definitionError(request.key, error);
  }
}

function definitionError(key: string, error: unknown): RollcallError {
  const code = error instanceof RollcallError ? error.code : 'sql_failed';
  const message = error instanceof Error ? error.message : String(error);
  return new RollcallError(code, `${key}: ${message}`, { cause: error });
}

async function freshRows({ session, dialect }: SqlDatabase, request: StageRequest) {
  if (request.action === 'retire' || request.action === 'backfill') return { fresh: '', columns: [] };
  const statement = readStatement(request.sql, request.asOf);
  const columns = await session.columns(`SELECT * FROM (\n${statement}\n) AS definition LIMIT 0`);
  return describe(request, statement, columns, dialect);
}

async function count(session: Session, request: StageRequest, table: string, snapshot: Snapshot) {
  const groups = await session.rows(
    `SELECT CAST(was AS integer), CAST(now AS integer), CASE WHEN user_id IS NULL THEN 1 ELSE 0 END, count(*), CAST(sum(rows) AS bigint) FROM ${table} GROUP BY 1, 2, 3`,
  );
  const found = new Map(groups.map(([was, now, folded, users, rows]) => [`${was}${now}${folded}`, { users, rows }]));
  const users = (group: string) => Number(found.get(group)?.users ?? 0);
  const rows = (group: string) => Number(found.get(group)?.rows ?? 0);
  const [entered, exited, kept, leavers] = [users('010'), users('100'), users('110'), users('000')];
  const before = snapshot.members;
  const runsDefinition = request.action === 'sync' || request.action === 'resync';
  const members = request.action === 'backfill' ? before : before + entered - exited;
  return {
    plan: request.plan,
    key: request.key,
    kind: request.kind,
    action: request.action,
    fromVersion: snapshot.version,
    toVersion: request.toVersion,
    before,
    members,
    entered,
    exited,
    changed: request.action === 'sync' ? kept : 0,
    invalid: rows('001'),
    duplicates: runsDefinition ? rows('111') + rows('110') + rows('010') - members : 0,
    total: entered + exited + kept + leavers,
  };
}

async function commit(database: SqlDatabase, staged: Staged): Promise<void> {
  const { session, tuned } = database;
  const { key, action, fromVersion, toVersion } = staged;
  if (action === 'backfill') return;
  const current = await readSnapshot(database, key);
  const target = action === 'retire' ? 0 : toVersion;
  if (current.version === target) return;
  if (current.version !== fromVersion) throw moved(staged);
  if (action === 'retire') {
    if ((await session.run(`DELETE FROM rollcall.snapshots WHERE ${snapshotRow(staged)}`)) !== 1) throw moved(staged);
    await dropSnapshotTables(session, key);
    return;
  }
  if (fromVersion === 0) {
    await session.run(`INSERT INTO rollcall.snapshots VALUES (${literal(key)}, 0, 0)`);
    await createSnapshotTables(session, key);
  }
  const growth = await applyPlan(session, staged);
  const set = `version = ${toVersion}, members = members + ${growth}`;
  const updated = await session.run(`UPDATE rollcall.snapshots SET ${set} WHERE ${snapshotRow(staged)}`);
  if (updated !== 1) throw moved(staged);
  if (fromVersion === 0) for (const statement of tuned.members(membersTable(key))) await session.run(statement);
}

function snapshotRow({ key, fromVersion }: Staged): string {
  return `key = ${literal(key)} AND version = ${fromVersion}`;
}

/** Moves members in and out; gives by how many the membership grew. */
async function applyPlan(session: Session, staged: Staged): Promise<number> {
  const members = membersTable(staged.key);
  const leavers = leaversTable(staged.key);
  const rows = (condition: string) => `FROM ${planTable(staged.plan)} WHERE user_id IS NOT NULL AND ${condition}`;
  // An audience's row says all there is; a trait's may have another value.
  const [removed, added] = staged.kind === 'trait' ? ['was', 'now'] : ['was AND NOT now', 'now AND NOT was'];
  let growth = 0;
  if (staged.before > 0) {
    growth -= await session.run(`DELETE FROM ${members} WHERE user_id IN (SELECT user_id ${rows(removed)})`);
  }
  growth += await session.run(`INSERT INTO ${members} SELECT user_id, value, ${staged.toVersion} ${rows(added)}`);
  await session.run(`DELETE FROM ${leavers} WHERE user_id IN (SELECT user_id ${rows('now AND NOT was')})`);
  await session.run(`INSERT INTO ${leavers} SELECT user_id, ${staged.toVersion} ${rows('was AND NOT now')}`);
  return growth;
}

const ASKED = 'user_id IN (SELECT unnest($1::varchar[]))';

async function lookup(database: SqlDatabase, key: string, users: readonly string[]): Promise<Map<string, Standing>> {
  const { session } = database;
  if ((await readSnapshot(database, key)).version === 0) return new Map();
  const rows = await session.rows(
    `SELECT user_id, TRUE, value, since FROM ${membersTable(key)} WHERE ${ASKED}
     UNION ALL SELECT user_id, FALSE, NULL, since FROM ${leaversTable(key)} WHERE ${ASKED}`,
    users,
  );
  return new Map(rows.map(toStanding));
}

async function lookupPlan(
  database: SqlDatabase,
  plan: string,
  users: readonly string[],
): Promise<Map<string, Standing>> {
  const { session } = database;
  const staged = await readStaged(database, plan);
  if (!staged) return new Map();
  const rows = await session.rows(
    `SELECT user_id, now, value, ${staged.toVersion} FROM ${planTable(plan)} WHERE ${ASKED}`,
    users,
  );
  return new Map(rows.map(toStanding));
}

function toStanding([user, present, value, since]: unknown[]): [string, Standing] {
  return [String(user), { present: present === true, value: value as string | null, since: Number(since) }];
}

async function forget(session: Session, users: readonly string[], keys: readonly string[] | null): Promise<void> {
  if (keys?.length === 0) return;
  const scope = keys === null ? '' : ` WHERE key IN (${keys.map(literal).join(', ')})`;
  const list = users.map(literal).join(', ');
  for (const [key] of await session.rows(`SELECT key FROM rollcall.snapshots${scope}`)) {
    const members = membersTable(String(key));
    const gone = await session.run(`DELETE FROM ${members} WHERE user_id IN (${list})`);
    await session.run(`DELETE FROM ${leaversTable(String(key))} WHERE user_id IN (${list})`);
    if (gone > 0) {
      await session.run(
        `UPDATE rollcall.snapshots SET members = members - ${gone} WHERE key = ${literal(String(key))}`,
      );
    }
  }
  for (const [plan] of await session.rows(`SELECT plan FROM rollcall.plans${scope}`)) {
    await session.run(`DELETE FROM ${planTable(String(plan))} WHERE user_id IN (${list})`);
  }
}

async function readSnapshot(database: SqlDatabase, key: string): Promise<Snapshot> {
  const { session } = database;
  if (!(await hasRegistry(database))) return { version: 0, members: 0 };
  const [row] = await session.rows(`SELECT version, members FROM rollcall.snapshots WHERE key = ${literal(key)}`);
  return { version: Number(row?.[0] ?? 0), members: Number(row?.[1] ?? 0) };
}

/** Looks before it creates: who may not create a schema may use the one that an administrator made. */
async function createRegistry(session: Session): Promise<void> {
  if (await findRegistry(session)) return;
  const schemas = await session.rows(`SELECT 1 FROM information_schema.schemata WHERE schema_name = 'rollcall'`);
  if (schemas.length === 0) await session.run('CREATE SCHEMA IF NOT EXISTS rollcall');
  for (const statement of REGISTRY) await session.run(statement);
}

/** Whether Rollcall has been here before; where it may write, `prepare` has seen to it. */
async function hasRegistry({ session, writable }: SqlDatabase): Promise<boolean> {
  return writable || findRegistry(session);
}

async function findRegistry(session: Session): Promise<boolean> {
  const tables = await session.rows(
    `SELECT 1 FROM information_schema.tables WHERE table_schema = 'rollcall' AND table_name = 'plans'`,
  );
  return tables.length > 0;
}

async function readStaged(database: SqlDatabase, plan: string): Promise<Staged | null> {
  const { session } = database;
  if (!(await hasRegistry(database))) return null;
  const [row] = await session.rows(`SELECT staged FROM rollcall.plans WHERE plan = ${literal(plan)}`);
  return row ? (JSON.parse(String(row[0])) as Staged) : null;
}

async function dropLeftovers(session: Session, { key, leasedAt }: StageRequest): Promise<void> {
  const leftovers = await session.rows(
    `SELECT plan FROM rollcall.plans WHERE key = ${literal(key)} AND leased_at < ${leasedAt}`,
  );
  for (const [plan] of leftovers) await dropPlan(session, String(plan));
}

async function dropPlan(session: Session, plan: string): Promise<void> {
  await session.run(`DROP TABLE IF EXISTS ${planTable(plan)}`);
  await session.run(`DELETE FROM rollcall.plans WHERE plan = ${literal(plan)}`);
}

async function createSnapshotTables(session: Session, key: string): Promise<void> {
  await dropSnapshotTables(session, key);
  await session.run(
    `CREATE TABLE ${membersTable(key)} (user_id varchar NOT NULL, value varchar, since bigint NOT NULL)`,
  );
  await session.run(`CREATE TABLE ${leaversTable(key)} (user_id varchar NOT NULL, since bigint NOT NULL)`);
}

async function dropSnapshotTables(session: Session, key: string): Promise<void> {
  await session.run(`DROP TABLE IF EXISTS ${membersTable(key)}`);
  await session.run(`DROP TABLE IF EXISTS ${leaversTable(key)}`);
}

async function transaction<T>(session: Session, work: () => Promise<T>): Promise<T> {
  await session.run('BEGIN');
  try {
    const result = await work();
    await session.run('COMMIT');
    return result;
  } catch (error) {
    await session.run('ROLLBACK').catch(() => {});
    throw error;
  }
}

async function interruptible<T>(session: Session, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
  const interrupt = () => session.interrupt();
  signal?.throwIfAborted();
  signal?.addEventListener('abort', interrupt, { once: true });
  try {
    return await work();
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener('abort', interrupt);
  }
}

function toBatch([positions, userIds, present, values]: readonly unknown[][]): ChangeBatch {
  return {
    positions: positions as number[],
    userIds: userIds as string[],
    present: present as boolean[],
    values: values as (string | null)[],
  };
}

function moved({ key, fromVersion }: Staged): RollcallError {
  return new RollcallError('snapshot_moved', `${key}: the snapshot has moved on from version ${fromVersion}.`);
}

/** Keys may be long and differ by case only, which table names may not. */
function membersTable(key: string): string {
  return `rollcall.members_${suffix(key)}`;
}

function leaversTable(key: string): string {
  return `rollcall.leavers_${suffix(key)}`;
}

function planTable(plan: string): string {
  return `rollcall.plan_${suffix(plan)}`;
}

function suffix(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}
