import type { AudienceRecord, Fence, Run, RunProgress, RunState } from '../port.ts';
import { checkFence } from './accept-alone.ts';
import { text } from './arrays.ts';
import { Conditions } from './conditions.ts';
import type { Context } from './context.ts';

export async function audience({ db }: Context, key: string): Promise<AudienceRecord | null> {
  const [row] = await db.rows<[string]>('SELECT record FROM rollcall.audience WHERE key = $1', [key]);
  return row ? (JSON.parse(row[0]) as AudienceRecord) : null;
}

export async function audiences({ db }: Context): Promise<AudienceRecord[]> {
  const rows = await db.rows<[string]>('SELECT record FROM rollcall.audience ORDER BY key');
  return rows.map(([record]) => JSON.parse(record) as AudienceRecord);
}

export function forgetAudience({ db }: Context, key: string, fence: Fence): Promise<void> {
  return db.transaction(async (session) => {
    await checkFence(session, fence);
    await session.run(
      `INSERT INTO rollcall.last_sequence AS l
       SELECT key, (record::json ->> 'sequence')::bigint FROM rollcall.audience WHERE key = $1
       ON CONFLICT (key) DO UPDATE SET sequence = greatest(l.sequence, excluded.sequence)`,
      [key],
    );
    await session.run('DELETE FROM rollcall.audience WHERE key = $1', [key]);
  });
}

export async function lastSequence({ db }: Context, key: string): Promise<number> {
  const [row] = await db.rows<[number]>('SELECT sequence FROM rollcall.last_sequence WHERE key = $1', [key]);
  return row?.[0] ?? 0;
}

/** `cursor` and `sent` of a run that is known belong to `accept`, which moves them with each batch. */
export function saveRun({ db }: Context, run: Run, fence: Fence, record?: AudienceRecord): Promise<void> {
  return db.transaction(async (session) => {
    await checkFence(session, fence);
    await session.run(
      `INSERT INTO rollcall.run (id, key, state, started_at, cursor, sent, record) VALUES ($1, $2, $3, $4, $5, $6, $7)
       ON CONFLICT (id) DO UPDATE SET state = excluded.state, record = excluded.record`,
      [run.id, run.key, run.state, run.startedAt, run.cursor, run.sent, JSON.stringify(run)],
    );
    if (!record) return;
    await session.run(
      'INSERT INTO rollcall.audience VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET record = excluded.record',
      [record.key, JSON.stringify(record)],
    );
  });
}

type RunRow = readonly [record: string, cursor: string | null, sent: number];

const runOf = ([record, cursor, sent]: RunRow): Run => ({ ...(JSON.parse(record) as Run), cursor, sent });

export async function run({ db }: Context, id: string): Promise<Run | null> {
  const [row] = await db.rows<RunRow>('SELECT record, cursor, sent FROM rollcall.run WHERE id = $1', [id]);
  return row ? runOf(row) : null;
}

export interface RunFilter {
  readonly key?: string;
  readonly states?: readonly RunState[];
  readonly limit: number;
}

/** The newest first. */
export async function runs({ db }: Context, { key, states, limit }: RunFilter): Promise<Run[]> {
  const conditions = new Conditions().add('key = ?', key).add('state = ANY (?::text[])', states && text(states));
  const rows = await db.rows<RunRow>(
    `SELECT record, cursor, sent FROM rollcall.run ${conditions.where()}
     ORDER BY started_at DESC, seq DESC LIMIT ${conditions.parameter(limit)}`,
    conditions.values,
  );
  return rows.map(runOf);
}

export async function runProgress({ db }: Context, id: string): Promise<RunProgress> {
  const sums = ['deliveries', 'untried', 'delivered', 'dead', 'superseded'].map(
    (name) => `coalesce(sum(${name}), 0)::bigint`,
  );
  const [row] = await db.rows<[number, number, number, number, number]>(
    `SELECT ${sums.join(', ')} FROM rollcall.run_progress WHERE run = $1`,
    [id],
  );
  const [deliveries = 0, untried = 0, delivered = 0, dead = 0, superseded = 0] = row ?? [];
  return { deliveries, untried, delivered, dead, superseded };
}

/** What is unfinished, undelivered or the newest of its key stays. */
const PRUNABLE_RUNS = `SELECT r.id FROM rollcall.run r
  WHERE r.started_at < $1 AND r.state IN ('done', 'failed', 'rejected')
    AND EXISTS (SELECT 1 FROM rollcall.run newer WHERE newer.key = r.key AND newer.started_at > r.started_at)
    AND (SELECT coalesce(sum(p.deliveries - p.delivered - p.dead - p.superseded), 0)
      FROM rollcall.run_progress p WHERE p.run = r.id) <= 0
  ORDER BY r.started_at LIMIT $2`;
const PRUNABLE_REGULATIONS = `SELECT id FROM rollcall.regulation
  WHERE status NOT IN ('INITIALIZED', 'RUNNING') AND created_at < $1 ORDER BY created_at LIMIT $2`;

/** When the first deletion was asked for that a run which is not over was computed before: its hashes are still needed. */
const NEEDED_SINCE = `SELECT min(r.created_at) FROM rollcall.regulation r WHERE r.id IN (
  SELECT d.regulation FROM rollcall.deletion d WHERE d.epoch > (
    SELECT min((record::json ->> 'epoch')::bigint) FROM rollcall.run WHERE state NOT IN ('done', 'failed', 'rejected')))`;

export function pruneRecords(
  { db }: Context,
  runsBefore: number,
  regulationsBefore: number,
  limit: number,
): Promise<number> {
  return db.transaction(async (session) => {
    const ids = text((await session.rows<[string]>(PRUNABLE_RUNS, [runsBefore, limit])).map(([id]) => id));
    await session.run('DELETE FROM rollcall.run_progress WHERE run = ANY ($1::text[])', [ids]);
    const runs = await session.run('DELETE FROM rollcall.run WHERE id = ANY ($1::text[])', [ids]);
    let over = await session.rows<[string]>(PRUNABLE_REGULATIONS, [regulationsBefore, limit]);
    if (over.length > 0) {
      const [needed] = await session.rows<[number | null]>(NEEDED_SINCE);
      const before = Math.min(regulationsBefore, needed?.[0] ?? regulationsBefore);
      if (before < regulationsBefore) over = await session.rows(PRUNABLE_REGULATIONS, [before, limit]);
    }
    const regulations = text(over.map(([id]) => id));
    await session.run('DELETE FROM rollcall.deletion WHERE regulation = ANY ($1::text[])', [regulations]);
    await session.run('DELETE FROM rollcall.regulation WHERE id = ANY ($1::text[])', [regulations]);
    return Math.max(runs, over.length);
  });
}
