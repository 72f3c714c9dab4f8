import { HISTORY_COLUMNS } from '../records/history.ts';
import { CLAIMED, READY, WAITING } from '../states.ts';

/** `time` is the store's time, which differs in the target. SQLite keeps a `name` once, and its number in the rows. */
export type Type = 'text' | 'name' | 'time' | 'int8' | 'int4' | 'int2' | 'hash';

interface Table {
  readonly name: string;
  readonly columns: { readonly [T in Type]?: readonly string[] };
  /** SQLite's expressions for columns that it lacks or keeps differently. */
  readonly as?: Readonly<Record<string, string | number>>;
  /** SQLite's FROM clause, if it is more than the table. */
  readonly from?: string;
}

export interface MovedTable {
  readonly name: string;
  readonly columns: readonly (readonly [name: string, type: Type])[];
  readonly query: string;
}

const nameOf = (column: string) => `(SELECT value FROM name WHERE id = ${column})`;

/** A claim that a newer change waits for ends; all others are ready. */
const IS_REPLACED = `EXISTS (SELECT 1 FROM delivery w WHERE w.conflict = d.conflict AND w.destination = d.destination
  AND w.state = ${WAITING} AND w.id <> d.id)`;
const STAYS = `(state <> ${CLAIMED} OR conflict IS NULL OR NOT ${IS_REPLACED})`;

const QUEUE: readonly Table[] = [
  {
    name: 'delivery',
    columns: {
      int8: ['id'],
      time: ['due_at', 'accepted_at', 'first_at'],
      int4: ['tries'],
      int2: ['rank', 'state', 'crashes', 'type'],
      name: ['destination', 'source', 'run'],
      text: ['message_id', 'user_id', 'conflict', 'marks', 'body'],
    },
    as: { rank: 'lane + 3 * (tries > 0)', state: READY },
    from: `delivery d WHERE ${STAYS}`,
  },
  {
    name: 'dead_letter',
    columns: {
      int8: ['id'],
      time: ['accepted_at', 'first_at', 'last_at'],
      int4: ['tries', 'status'],
      int2: ['lane', 'type'],
      name: ['destination', 'source', 'run'],
      text: ['message_id', 'user_id', 'conflict', 'reason', 'body', 'marks', 'taken'],
    },
  },
  {
    name: 'delivered',
    columns: {
      int8: ['id', 'delivery'],
      time: ['at', 'accepted_at'],
      int2: ['type'],
      name: ['destination', 'source'],
      text: ['message_id', 'user_id', 'conflict', 'body'],
    },
  },
  {
    name: 'backlog',
    columns: { name: ['destination'], int8: ['part', 'pending', 'dead', 'queued', 'held_out'] },
    as: { part: 0, pending: 'sum(pending)', dead: 'sum(dead)', queued: 'sum(queued)', held_out: 'sum(held_out)' },
    from: `(
      SELECT destination, 1 AS pending, 0 AS dead, tries = 0 AND lane <> 0 AS queued, 0 AS held_out
      FROM delivery d WHERE ${STAYS}
      UNION ALL SELECT destination, 0, 1, 0, reason = 'queue_full' FROM dead_letter) GROUP BY destination`,
  },
  {
    name: 'attempt',
    columns: {
      int8: ['id', 'delivery'],
      time: ['at'],
      int4: ['status', 'ms'],
      int2: ['type', 'outcome'],
      name: ['destination', 'endpoint', 'source'],
      text: ['message_id', 'user_id', 'error', 'response'],
    },
  },
  {
    name: 'run_progress',
    columns: { text: ['run'], int8: ['part', 'deliveries', 'untried', 'delivered', 'dead', 'superseded'] },
    // Claims that end count as superseded.
    as: {
      ...{ run: 'r.run', part: 0, untried: 'r.untried - coalesce(o.untried, 0)' },
      superseded: 'superseded + coalesce(o.count, 0)',
    },
    from: `run_progress r LEFT JOIN (
      SELECT ${nameOf('run')} AS run, count(*) AS count, sum(tries = 0) AS untried FROM delivery d
      WHERE state = ${CLAIMED} AND conflict IS NOT NULL AND ${IS_REPLACED} GROUP BY d.run) o ON o.run = r.run`,
  },
];

const RECORDS: readonly Table[] = [
  { name: 'discard', columns: { int8: ['id'], time: ['at'], text: ['source', 'code', 'message'] } },
  { name: 'spent_pass', columns: { text: ['hash'], int8: ['ends_at'] } },
  { name: 'audit', columns: { int8: ['id'], time: ['at'], text: ['who', 'action', 'target', 'outcome'] } },
  {
    name: 'alert',
    columns: {
      text: ['id', 'kind', 'subject', 'record'],
      time: ['first_at', 'opened_at', 'gone_at', 'closed_at', 'opening_at', 'closing_at'],
      int2: ['is_over'],
    },
    from: 'alert ORDER BY seq',
  },
  { name: 'rollup', columns: { int2: ['subject', 'step'], text: ['name'], int8: ['at', ...HISTORY_COLUMNS] } },
  {
    name: 'endpoint',
    columns: {
      text: ['endpoint', 'destination', 'dead_cause', 'dead_answer'],
      time: ['paused_at', 'dead_since', 'refusing_since', 'refused_from', 'taken_at'],
    },
  },
  {
    name: 'lease',
    columns: { text: ['name', 'holder'], int8: ['token', 'lease_until'] },
    as: { holder: "''", lease_until: 0 },
  },
  { name: 'orphan', columns: { text: ['destination'], time: ['since'], int8: ['unknown_for'] } },
  { name: 'configuration', columns: { text: ['hash'], int8: ['generation'] } },
  { name: 'audience_generation', columns: { text: ['key', 'definition'], int8: ['generation'] } },
  { name: 'last_sequence', columns: { text: ['key'], int8: ['sequence'] } },
  { name: 'audience_pause', columns: { text: ['key', 'who'], time: ['at'] } },
  { name: 'audience', columns: { text: ['key', 'record'] } },
  {
    name: 'run',
    columns: { text: ['id', 'key', 'state', 'cursor', 'record'], int8: ['started_at', 'sent'] },
    from: 'run ORDER BY seq',
  },
  { name: 'regulation', columns: { text: ['id', 'status', 'record'], int8: ['created_at'] } },
  { name: 'notice_confirmation', columns: { text: ['regulation', 'destination', 'notice'], time: ['at'] } },
  { name: 'suppression', columns: { hash: ['hash', 'named'] } },
  { name: 'deletion', columns: { hash: ['hash'], text: ['regulation'], int8: ['epoch'], int2: ['is_open', 'in_log'] } },
];

export const TABLES: readonly MovedTable[] = [...QUEUE, ...RECORDS].map(({ name, columns, as = {}, from = name }) => {
  const typed = Object.entries(columns).flatMap(([type, names]) =>
    names.map((column) => [column, type as Type] as const),
  );
  const values = typed.map(([column, type]) => as[column] ?? (type === 'name' ? nameOf(column) : column));
  return { name, columns: typed, query: `SELECT ${values.join(', ')} FROM ${from}` };
});
