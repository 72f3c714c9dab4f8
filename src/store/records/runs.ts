import type { AudienceRecord, Fence, LastSuccess, Run, RunFilter, RunProgress, RunState } from '../port.ts';
import { raw, type Sql, sql, where } from '../sql.ts';
import { saveAudience } from './audiences.ts';
import { checkFence } from './fence.ts';
import type { Dialect, Session } from './session.ts';

/** Saves a run. `cursor` and `sent` of a known run belong to `accept`, which moves them with each batch. */
export function saveRun(session: Session, run: Run, fence: Fence, audience?: AudienceRecord): Promise<void> {
  return session.transaction(async (session) => {
    await checkFence(session, fence);
    await session.run(sql`INSERT INTO rollcall.run (id, key, state, started_at, cursor, sent, record)
      VALUES (${run.id}, ${run.key}, ${run.state}, ${run.startedAt}, ${run.cursor}, ${run.sent}, ${JSON.stringify(run)})
      ON CONFLICT (id) DO UPDATE SET state = excluded.state, record = excluded.record`);
    if (audience) await saveAudience(session, audience);
  });
}

type RunRow = readonly [record: string, cursor: string | null, sent: number];

const runOf = ([record, cursor, sent]: RunRow): Run => ({ ...(JSON.parse(record) as Run), cursor, sent });

export async function run({ rows }: Session, id: string): Promise<Run | null> {
  const [row] = await rows<RunRow>(
    sql`SELECT record, cursor, sent FROM rollcall.run WHERE id = ${id} AND key <> ${SENDS}`,
  );
  return row ? runOf(row) : null;
}

/** The key of sends of past events, which no audience can have: they are listed by `sends`. */
export const SENDS = 'events:send';

const OPEN_STATES: ReadonlySet<RunState> = new Set<RunState>(['staged', 'held', 'sending', 'committed']);
/** As in the condition of the index `run_open`. */
export const IS_OPEN = raw("state IN ('staged', 'held', 'sending', 'committed')");

/** A listing of runs by the order of their insertion: the clock may have been wrong. Each kind has an index. */
export function runsQuery(dialect: Dialect, { key, states, before, toVersion, limit }: RunFilter): Sql {
  const isOpen = states?.every((state) => OPEN_STATES.has(state)) ?? false;
  const index = isOpen ? 'run_open' : key !== undefined ? 'run_key' : null;
  const conditions = where(
    isOpen ? IS_OPEN : null,
    key === undefined ? sql`key <> ${SENDS}` : sql`key = ${key}`,
    states ? dialect.oneOf(raw('state'), 'text', states) : null,
    // The whole record is read only if this is in it.
    toVersion === undefined ? null : sql`record LIKE ${`%"toVersion":${toVersion},%`}`,
    before === undefined ? null : sql`seq < (SELECT seq FROM rollcall.run WHERE id = ${before})`,
  );
  return sql`SELECT record, cursor, sent FROM rollcall.run ${index === null ? raw('') : dialect.using(index)} ${conditions}
    ORDER BY seq DESC LIMIT ${limit}`;
}

/** Newest first. */
export async function runs({ rows, dialect }: Session, filter: RunFilter): Promise<Run[]> {
  return (await rows<RunRow>(runsQuery(dialect, filter))).map(runOf);
}

/** One index lookup per key, in one statement: there may be hundreds. */
export async function newestRuns(
  { rows, dialect }: Session,
  keys: readonly string[],
  limit: number,
): Promise<Map<string, Run[]>> {
  const newest = sql`SELECT newest.id FROM rollcall.run AS newest WHERE newest.key = list.value
    ORDER BY newest.seq DESC LIMIT ${limit}`;
  const found = await rows<RunRow>(sql`SELECT run.record, run.cursor, run.sent
    FROM ${dialect.rowsOf('text', keys)} CROSS JOIN rollcall.run AS run WHERE ${dialect.among(raw('run.id'), newest)}
    ORDER BY run.key, run.seq DESC`);
  return Map.groupBy(found.map(runOf), ({ key }) => key);
}

export async function historySince({ rows }: Session): Promise<number> {
  const [row] = await rows<[string]>(sql`SELECT value FROM rollcall.meta WHERE key = 'history_since'`);
  return Number(row?.[0] ?? 0);
}

/** Never goes back: what was removed once is gone, even if more is kept from now on. */
export function forgetHistory(session: Session, before: number): Promise<void> {
  return session.transaction(async (session) => {
    if (before <= (await historySince(session))) return;
    await session.run(sql`INSERT INTO rollcall.meta (key, value) VALUES ('history_since', ${String(before)})
      ON CONFLICT (key) DO UPDATE SET value = excluded.value`);
  });
}

const SUMS = raw(
  ['deliveries', 'untried', 'delivered', 'dead', 'superseded']
    .map((name) => `CAST(coalesce(sum(${name}), 0) AS bigint)`)
    .join(', '),
);

export async function runProgress({ rows }: Session, id: string): Promise<RunProgress> {
  const [row] = await rows<[number, number, number, number, number]>(
    sql`SELECT ${SUMS} FROM rollcall.run_progress WHERE run = ${id}`,
  );
  const [deliveries = 0, untried = 0, delivered = 0, dead = 0, superseded = 0] = row ?? [];
  return { deliveries, untried, delivered, dead, superseded };
}

/** The newest `done` run of each known audience, found by the index by key. */
export async function lastSuccesses({ rows }: Session): Promise<LastSuccess[]> {
  const found = await rows<[string]>(sql`
    SELECT run.record FROM rollcall.audience AS audience JOIN rollcall.run AS run ON run.id = (
      SELECT newest.id FROM rollcall.run AS newest WHERE newest.key = audience.key AND newest.state = 'done'
      ORDER BY newest.seq DESC LIMIT 1)`);
  return found.map(([record]) => {
    const { key, members, finishedAt, startedAt } = JSON.parse(record) as Run;
    return { key, members, at: finishedAt ?? startedAt };
  });
}
