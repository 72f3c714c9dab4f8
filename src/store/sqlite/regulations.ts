import { MESSAGE_TYPES } from '../../message.ts';
import { aliasNeedles } from '../alias.ts';
import { deletes, isOver, type Regulation } from '../port.ts';
import { CLAIMED } from '../states.ts';
import { suppressionHash } from './accept.ts';
import type { Connection } from './connection.ts';
import { BacklogChanges, RunChanges } from './counters.ts';
import { closeDeletion, openDeletion } from './deletions.ts';

export function saveRegulation(
  db: Connection,
  _now: number,
  { regulation }: { readonly regulation: Regulation },
): void {
  if (deletes(regulation.type) && regulation.status === 'RUNNING') openDeletion(db, regulation);
  if (isOver(regulation.status)) closeDeletion(db, regulation.id);
  write(db, isOver(regulation.status) ? stripped(db, regulation) : regulation);
}

export function stripRegulation(db: Connection, _now: number, { id }: { readonly id: string }): void {
  const known = regulation(db, 0, { id });
  if (known) write(db, stripped(db, known));
}

function write(db: Connection, regulation: Regulation): void {
  const { id, status, createdAt } = regulation;
  db.run('INSERT OR REPLACE INTO regulation VALUES (?, ?, ?, ?)', id, status, createdAt, JSON.stringify(regulation));
}

function stripped(db: Connection, regulation: Regulation): Regulation {
  const { userIds } = regulation;
  if (userIds.length === 0) return regulation;
  const hash = suppressionHash(db);
  return {
    ...regulation,
    userIds: [],
    told: null,
    hashes: userIds.map((user) => hash('', user).toString('base64url')),
  };
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
const ALIAS_TYPE = MESSAGE_TYPES.indexOf('alias');
/** Letters first: what is queued again meanwhile is found among the deliveries. */
const PHASES = ['dead_letter', 'delivery', 'attempt'] as const;

/** Users, sources (null for all), and what the body of an alias holds of a former id; each as a JSON list. */
type Scope = readonly [users: string, sources: string | null, former: string];
const FROM_SCOPE = '(?2 IS NULL OR source IN (SELECT id FROM name WHERE value IN (SELECT value FROM json_each(?2))))';
const OF_USER = 'user_id IN (SELECT value FROM json_each(?1))';
const OF_FORMER = `type = ${ALIAS_TYPE} AND EXISTS (SELECT 1 FROM json_each(?3) AS f WHERE instr(body, f.value) > 0)`;
/** Attempts have no body: those of an alias name the new id only. */
const IN_SCOPE = {
  delivery: `type <> ${DELETE_TYPE} AND (${OF_USER} OR ${OF_FORMER}) AND ${FROM_SCOPE}`,
  dead_letter: `type <> ${DELETE_TYPE} AND (${OF_USER} OR ${OF_FORMER}) AND ${FROM_SCOPE}`,
  attempt: `?3 IS NOT NULL AND type <> ${DELETE_TYPE} AND ${OF_USER} AND ${FROM_SCOPE}`,
};

function scopeOf(users: readonly string[], sources: readonly string[] | null): Scope {
  return [
    JSON.stringify(users),
    sources === null ? null : JSON.stringify(sources),
    JSON.stringify(aliasNeedles(users)),
  ];
}

export interface EraseArguments {
  readonly users: readonly string[];
  readonly sources: readonly string[] | null;
  readonly cursor: string | null;
}

/** Tables are scanned by id: deletions are rare, and an index by user would cost every accept. */
export function erase(db: Connection, _now: number, { users, sources, cursor }: EraseArguments) {
  const [table = 'dead_letter', from = '0'] = cursor?.split(':') ?? [];
  const phase = (PHASES as readonly string[]).indexOf(table);
  const start = Number(from);
  const scope = scopeOf(users, sources);
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
  const isTheirs = `${IN_SCOPE[table]} AND id > ?4 AND id <= ?5`;
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
     WHERE state = ${CLAIMED} AND owner IN (SELECT id FROM owner) AND ${IN_SCOPE.delivery}`,
    ...scope,
  );
  return row?.count ?? 0;
}

/** Who was posted to about these users. */
export function told(db: Connection, _now: number, { users, sources, cursor }: EraseArguments) {
  const start = Number(cursor ?? 0);
  const last = db.get<{ last: number | null }>('SELECT max(id) AS last FROM attempt')?.last ?? 0;
  const first = db.get<{ id: number }>('SELECT min(id) AS id FROM attempt WHERE id > ?', start)?.id ?? last;
  const end = Math.max(start, first - 1) + ERASE_STEP;
  const rows = db.tuples<[number, number, string]>(
    `SELECT DISTINCT source, destination, user_id FROM attempt WHERE ${IN_SCOPE.attempt} AND id > ?4 AND id <= ?5`,
    ...scopeOf(users, sources),
    start,
    end,
  );
  return {
    cursor: end < last ? String(end) : null,
    told: rows.map(([source, destination, user]) => ({
      source: db.name(source),
      destination: db.name(destination),
      user,
    })),
  };
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
