import type { AudienceRecord, Fence, Run, RunProgress, RunState } from '../port.ts';
import { checkFence } from './accept.ts';
import type { Connection } from './connection.ts';

export function audience(db: Connection, _now: number, { key }: { readonly key: string }): AudienceRecord | null {
  const row = db.get<{ record: string }>('SELECT record FROM audience WHERE key = ?', key);
  return row ? (JSON.parse(row.record) as AudienceRecord) : null;
}

export function audiences(db: Connection): AudienceRecord[] {
  const rows = db.all<{ record: string }>('SELECT record FROM audience ORDER BY key');
  return rows.map((row) => JSON.parse(row.record) as AudienceRecord);
}

export interface ForgetArguments {
  readonly key: string;
  readonly fence: Fence;
}

export function forgetAudience(db: Connection, _now: number, { key, fence }: ForgetArguments): void {
  checkFence(db, fence);
  db.run(
    `INSERT INTO last_sequence SELECT key, record ->> 'sequence' FROM audience WHERE key = ?
     ON CONFLICT (key) DO UPDATE SET sequence = max(sequence, excluded.sequence)`,
    key,
  );
  db.run('DELETE FROM audience WHERE key = ?', key);
}

export function lastSequence(db: Connection, _now: number, { key }: { readonly key: string }): number {
  return db.get<{ sequence: number }>('SELECT sequence FROM last_sequence WHERE key = ?', key)?.sequence ?? 0;
}

export interface SaveRunArguments {
  readonly run: Run;
  readonly fence: Fence;
  readonly audience: AudienceRecord | null;
}

/** `cursor` and `sent` of a run that is known belong to `accept`, which moves them with each batch. */
export function saveRun(db: Connection, _now: number, { run, fence, audience }: SaveRunArguments): void {
  checkFence(db, fence);
  db.run(
    `INSERT INTO run (id, key, state, started_at, cursor, sent, record) VALUES (?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET state = excluded.state, record = excluded.record`,
    db.nameId(run.id),
    run.key,
    run.state,
    run.startedAt,
    run.cursor,
    run.sent,
    JSON.stringify(run),
  );
  if (audience) db.run('INSERT OR REPLACE INTO audience VALUES (?, ?)', audience.key, JSON.stringify(audience));
}

interface StoredRun extends Record<string, string | number | null> {
  record: string;
  cursor: string | null;
  sent: number;
}

const runOf = ({ record, cursor, sent }: StoredRun): Run => ({ ...(JSON.parse(record) as Run), cursor, sent });

export function run(db: Connection, _now: number, { id }: { readonly id: string }): Run | null {
  const row = db.get<StoredRun>('SELECT record, cursor, sent FROM run WHERE id = ?', db.knownNameId(id));
  return row ? runOf(row) : null;
}

export interface RunFilter {
  readonly key?: string;
  readonly states?: readonly RunState[];
  readonly limit: number;
}

/** As in the condition of the index `run_open`. */
const OPEN = "state IN ('staged', 'held', 'sending', 'committed')";
const OPEN_STATES: ReadonlySet<RunState> = new Set<RunState>(['staged', 'held', 'sending', 'committed']);

/** SQL for a listing; each finds its rows by an index of its own. */
export function runsQuery(hasKey: boolean, states: readonly RunState[] | undefined): string {
  const isOpen = states?.every((state) => OPEN_STATES.has(state)) ?? false;
  const index = isOpen ? 'run_open' : hasKey ? 'run_key' : 'run_started';
  const conditions = [
    ...(isOpen ? [OPEN] : []),
    ...(hasKey ? ['key = ?1'] : ['?1 IS NULL']),
    ...(states ? ['state IN (SELECT value FROM json_each(?2))'] : ['?2 IS NULL']),
  ];
  return `SELECT record, cursor, sent FROM run INDEXED BY ${index} WHERE ${conditions.join(' AND ')}
    ORDER BY started_at DESC, id DESC LIMIT ?3`;
}

/** Newest first. */
export function runs(db: Connection, _now: number, { key, states, limit }: RunFilter): Run[] {
  const sql = runsQuery(key !== undefined, states);
  return db.all<StoredRun>(sql, key ?? null, states ? JSON.stringify(states) : null, limit).map(runOf);
}

export interface PruneRecordsArguments {
  readonly runsBefore: number;
  readonly regulationsBefore: number;
  readonly limit: number;
}

/** What is unfinished, undelivered or the newest of its key stays. */
export const PRUNABLE_RUNS = `SELECT id FROM run INDEXED BY run_started
  WHERE started_at < ?1 AND NOT ${OPEN} AND deliveries <= delivered + dead + superseded
    AND EXISTS (SELECT 1 FROM run AS newer INDEXED BY run_key WHERE newer.key = run.key AND newer.started_at > run.started_at)
  ORDER BY started_at LIMIT ?2`;
export const PRUNABLE_REGULATIONS = `SELECT id FROM regulation INDEXED BY regulation_over
  WHERE status NOT IN ('INITIALIZED', 'RUNNING') AND created_at < ?1 ORDER BY created_at LIMIT ?2`;

export function pruneRecords(
  db: Connection,
  _now: number,
  { runsBefore, regulationsBefore, limit }: PruneRecordsArguments,
) {
  const ids = db.tuples<[number]>(PRUNABLE_RUNS, runsBefore, limit).map(([id]) => id);
  const runIds = JSON.stringify(ids);
  db.run('DELETE FROM run WHERE id IN (SELECT value FROM json_each(?))', runIds);
  db.dropNames(ids);
  const before = Math.min(regulationsBefore, neededSince(db));
  const over = JSON.stringify(db.tuples<[string]>(PRUNABLE_REGULATIONS, before, limit).map(([id]) => id));
  db.run('DELETE FROM deletion WHERE regulation IN (SELECT value FROM json_each(?))', over);
  const regulations = db.run('DELETE FROM regulation WHERE id IN (SELECT value FROM json_each(?))', over);
  return Math.max(ids.length, regulations);
}

const OLDEST_EPOCH = `SELECT min(record ->> 'epoch') FROM run INDEXED BY run_open WHERE ${OPEN}`;

/** When the first deletion was asked for that a run which is not over was computed before: its hashes are still needed. */
function neededSince(db: Connection): number {
  const [epoch] = db.tuples<[number | null]>(OLDEST_EPOCH)[0] ?? [null];
  if (epoch === null) return Number.POSITIVE_INFINITY;
  const [since] = db.tuples<[number | null]>(
    'SELECT min(created_at) FROM regulation WHERE id IN (SELECT regulation FROM deletion WHERE epoch > ?)',
    epoch,
  )[0] ?? [null];
  return since ?? Number.POSITIVE_INFINITY;
}

const NOTHING: RunProgress = { deliveries: 0, untried: 0, delivered: 0, dead: 0, superseded: 0 };

export function runProgress(db: Connection, _now: number, { id }: { readonly id: string }): RunProgress {
  const columns = 'deliveries, untried, delivered, dead, superseded';
  const row = db.get<Record<keyof RunProgress, number>>(`SELECT ${columns} FROM run WHERE id = ?`, db.knownNameId(id));
  return row ? { ...row } : NOTHING;
}
