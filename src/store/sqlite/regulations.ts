import { MESSAGE_TYPES } from '../../message.ts';
import type { Regulation } from '../port.ts';
import { CLAIMED } from '../states.ts';
import { suppressionHash } from './accept.ts';
import type { Connection } from './connection.ts';
import { BacklogChanges, RunChanges } from './counters.ts';

export function saveRegulation(
  db: Connection,
  _now: number,
  { regulation }: { readonly regulation: Regulation },
): void {
  const { id, status, createdAt } = regulation;
  db.run('INSERT OR REPLACE INTO regulation VALUES (?, ?, ?, ?)', id, status, createdAt, JSON.stringify(regulation));
}

export function regulation(db: Connection, _now: number, { id }: { readonly id: string }): Regulation | null {
  const row = db.get<{ record: string }>('SELECT record FROM regulation WHERE id = ?', id);
  return row ? (JSON.parse(row.record) as Regulation) : null;
}

export function openRegulations(db: Connection): Regulation[] {
  const rows = db.all<{ record: string }>(
    "SELECT record FROM regulation WHERE status IN ('INITIALIZED', 'RUNNING') ORDER BY created_at",
  );
  return rows.map((row) => JSON.parse(row.record) as Regulation);
}

/** Rows looked at in one transaction, so that others get their turn. */
const ERASE_STEP = 20_000;
const DELETE_TYPE = MESSAGE_TYPES.indexOf('delete');
const PHASES = ['delivery', 'dead_letter', 'attempt'] as const;

/** Users, and sources (null for all), each as a JSON list. */
type Scope = readonly [users: string, sources: string | null];
const IN_SCOPE = `type <> ${DELETE_TYPE} AND user_id IN (SELECT value FROM json_each(?1))
  AND (?2 IS NULL OR source IN (SELECT id FROM name WHERE value IN (SELECT value FROM json_each(?2))))`;

export interface EraseArguments {
  readonly users: readonly string[];
  readonly sources: readonly string[] | null;
  readonly cursor: string | null;
}

/** Tables are scanned by id: deletions are rare, and an index by user would cost every accept. */
export function erase(db: Connection, _now: number, { users, sources, cursor }: EraseArguments) {
  const [table = 'delivery', from = '0'] = cursor?.split(':') ?? [];
  const phase = (PHASES as readonly string[]).indexOf(table);
  const start = Number(from);
  const scope: Scope = [JSON.stringify(users), sources === null ? null : JSON.stringify(sources)];
  const last = db.get<{ last: number | null }>(`SELECT max(id) AS last FROM ${table}`)?.last ?? 0;
  // Ids that are gone are skipped, so that a step covers rows, not holes.
  const first = db.get<{ id: number }>(`SELECT min(id) AS id FROM ${table} WHERE id > ?`, start)?.id ?? last;
  const end = Math.max(start, first - 1) + ERASE_STEP;
  eraseRange(db, table as (typeof PHASES)[number], scope, start, end);
  if (end < last) return { cursor: `${table}:${end}`, inFlight: inFlight(db, scope) };
  const next = PHASES[phase + 1];
  return { cursor: next === undefined ? null : `${next}:0`, inFlight: inFlight(db, scope) };
}

function eraseRange(db: Connection, table: (typeof PHASES)[number], scope: Scope, start: number, end: number): void {
  const isTheirs = `${IN_SCOPE} AND id > ?3 AND id <= ?4`;
  const backlog = new BacklogChanges(db);
  const runs = new RunChanges(db);
  if (table === 'attempt') db.run(`DELETE FROM attempt WHERE ${isTheirs}`, ...scope, start, end);
  if (table === 'dead_letter') {
    for (const [destination, reason, run] of db.tuples<[number, string, number | null]>(
      `DELETE FROM dead_letter WHERE ${isTheirs} RETURNING destination, reason, run`,
      ...scope,
      start,
      end,
    )) {
      const heldOut = reason === 'queue_full' ? -1 : 0;
      backlog.add(destination, { dead: -1, heldOut });
      if (heldOut !== 0 && run !== null) runs.add(run, { superseded: 1, untried: -1 });
    }
  }
  if (table === 'delivery') {
    for (const [destination, run, tries] of db.tuples<[number, number | null, number]>(
      `DELETE FROM delivery WHERE ${isTheirs} AND state <> ${CLAIMED} RETURNING destination, run, tries`,
      ...scope,
      start,
      end,
    )) {
      const untried = tries === 0 ? -1 : 0;
      backlog.add(destination, { pending: -1, queued: untried });
      if (run !== null) runs.add(run, { superseded: 1, untried });
    }
  }
  backlog.write();
  runs.write();
}

function inFlight(db: Connection, scope: Scope): number {
  const row = db.get<{ count: number }>(
    `SELECT count(*) AS count FROM delivery INDEXED BY delivery_claimed
     WHERE state = ${CLAIMED} AND owner IN (SELECT id FROM owner) AND ${IN_SCOPE}`,
    ...scope,
  );
  return row?.count ?? 0;
}

export interface SuppressArguments {
  readonly users: readonly string[];
  readonly sources: readonly string[] | null;
  readonly on: boolean;
}

export function suppress(db: Connection, _now: number, { users, sources, on }: SuppressArguments): void {
  const hash = suppressionHash(db);
  const sql = on ? 'INSERT OR IGNORE INTO suppression VALUES (?)' : 'DELETE FROM suppression WHERE hash = ?';
  for (const user of users) for (const scope of sources ?? ['']) db.run(sql, hash(scope, user));
}
