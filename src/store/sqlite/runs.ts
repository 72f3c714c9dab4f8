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
    `INSERT INTO run (id, key, state, cursor, sent, record) VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET state = excluded.state, record = excluded.record`,
    db.nameId(run.id),
    run.key,
    run.state,
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

/** Newest first. */
export function runs(db: Connection, _now: number, { key, states, limit }: RunFilter): Run[] {
  const rows = db.all<StoredRun>(
    `SELECT record, cursor, sent FROM run
     WHERE (?1 IS NULL OR key = ?1) AND (?2 IS NULL OR state IN (SELECT value FROM json_each(?2)))
     ORDER BY id DESC LIMIT ?3`,
    key ?? null,
    states ? JSON.stringify(states) : null,
    limit,
  );
  return rows.map(runOf);
}

const NOTHING: RunProgress = { deliveries: 0, untried: 0, delivered: 0, dead: 0, superseded: 0 };

export function runProgress(db: Connection, _now: number, { id }: { readonly id: string }): RunProgress {
  const columns = 'deliveries, untried, delivered, dead, superseded';
  const row = db.get<Record<keyof RunProgress, number>>(`SELECT ${columns} FROM run WHERE id = ?`, db.knownNameId(id));
  return row ? { ...row } : NOTHING;
}
