import type { DeadReason } from '../../dead-reasons.ts';
import { MESSAGE_TYPES } from '../../message-types.ts';
import { aliasNeedles } from '../alias.ts';
import { Changes } from '../changes.ts';
import { CLAIMED } from '../states.ts';
import type { Connection } from './connection.ts';
import { writeChanges } from './counters.ts';

/** Rows looked at in one transaction, so that others get their turn. */
const ERASE_STEP = 20_000;
const DELETE_TYPE = MESSAGE_TYPES.indexOf('delete');
const ALIAS_TYPE = MESSAGE_TYPES.indexOf('alias');
/** Letters first: what is queued again meanwhile is found among the deliveries. */
const PHASES = ['dead_letter', 'delivery', 'delivered', 'attempt'] as const;

/** Users, sources (null for all), and what the body of an alias holds of a former id; each as a JSON list. */
type Scope = readonly [users: string, sources: string | null, former: string];
const FROM_SCOPE = '(?2 IS NULL OR source IN (SELECT id FROM name WHERE value IN (SELECT value FROM json_each(?2))))';
const OF_USER = 'user_id IN (SELECT value FROM json_each(?1))';
const OF_FORMER = `type = ${ALIAS_TYPE} AND EXISTS (SELECT 1 FROM json_each(?3) AS f WHERE instr(body, f.value) > 0)`;
/** Attempts have no body: those of an alias name the new id only. */
const IN_SCOPE = {
  delivery: `type <> ${DELETE_TYPE} AND (${OF_USER} OR ${OF_FORMER}) AND ${FROM_SCOPE}`,
  delivered: `type <> ${DELETE_TYPE} AND (${OF_USER} OR ${OF_FORMER}) AND ${FROM_SCOPE}`,
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

interface EraseArguments {
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
  const gone = `DELETE FROM ${table} WHERE ${IN_SCOPE[table]} AND id > ?4 AND id <= ?5`;
  const values = [...scope, start, end];
  const changes = new Changes<number>();
  if (table === 'dead_letter') {
    type Gone = [number, number | null, DeadReason];
    for (const letter of db.tuples<Gone>(`${gone} RETURNING destination, run, reason`, ...values)) {
      changes.letterGone(...letter, 'superseded');
    }
  } else if (table === 'delivery') {
    type Gone = [number, number | null, number];
    const left = `${gone} AND state <> ${CLAIMED} RETURNING destination, run, tries`;
    for (const delivery of db.tuples<Gone>(left, ...values)) changes.takenBack(...delivery);
  } else db.run(gone, ...values);
  writeChanges(db, changes);
}

function inFlight(db: Connection, scope: Scope): number {
  const row = db.get<{ count: number }>(
    `SELECT count(*) AS count FROM delivery INDEXED BY delivery_claimed
     WHERE state = ${CLAIMED} AND owner IN (SELECT id FROM owner) AND ${IN_SCOPE.delivery}`,
    ...scope,
  );
  return row?.count ?? 0;
}
