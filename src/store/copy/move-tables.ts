import { HISTORY_COLUMNS } from '../records/history.ts';
import { CLAIMED, READY, WAITING } from '../states.ts';

/** `time` is the store's, which is another there. */
export type Type = 'text' | 'time' | 'int8' | 'int4' | 'int2' | 'hash';

export interface Table {
  readonly name: string;
  readonly columns: Readonly<Record<string, Type>>;
  /** A query of SQLite for the columns, in their order. */
  readonly from: string;
}

export const SQL_TYPES: Readonly<Record<Type, string>> = {
  text: 'text',
  time: 'bigint',
  int8: 'bigint',
  int4: 'int',
  int2: 'smallint',
  hash: 'bytea',
};
/** SQLite keeps strings once, by number. */
export const nameOf = (column: string) => `(SELECT value FROM name WHERE id = ${column})`;

/** A claim that a newer change waits for is over with; all else is ready. */
const IS_REPLACED = `EXISTS (SELECT 1 FROM delivery w WHERE w.conflict = d.conflict AND w.destination = d.destination
  AND w.state = ${WAITING} AND w.id <> d.id)`;
const STAYS = `(state <> ${CLAIMED} OR conflict IS NULL OR NOT ${IS_REPLACED})`;

export const TABLES: readonly Table[] = [
  {
    name: 'delivery',
    columns: {
      ...{
        id: 'int8',
        due_at: 'time',
        accepted_at: 'time',
        first_at: 'time',
        tries: 'int4',
        rank: 'int2',
        state: 'int2',
        crashes: 'int2',
      },
      ...{ type: 'int2', destination: 'text', source: 'text', message_id: 'text', user_id: 'text', run: 'text' },
      ...{ conflict: 'text', marks: 'text', body: 'text' },
    },
    from: `SELECT id, due_at, accepted_at, first_at, tries, lane + 3 * (tries > 0), ${READY}, crashes, type, ${nameOf('destination')},
      ${nameOf('source')}, message_id, user_id, ${nameOf('run')}, conflict, marks, body FROM delivery d
      WHERE ${STAYS}`,
  },
  {
    name: 'dead_letter',
    columns: {
      ...{ id: 'int8', accepted_at: 'time', first_at: 'time', last_at: 'time', tries: 'int4', status: 'int4' },
      ...{ lane: 'int2', type: 'int2' },
      ...{ destination: 'text', source: 'text', message_id: 'text', user_id: 'text', run: 'text', conflict: 'text' },
      ...{ reason: 'text', body: 'text', marks: 'text' },
    },
    from: `SELECT id, accepted_at, first_at, last_at, tries, status, lane, type, ${nameOf('destination')}, ${nameOf('source')},
      message_id, user_id, ${nameOf('run')}, conflict, reason, body, marks FROM dead_letter`,
  },
  {
    name: 'delivered',
    columns: {
      ...{ id: 'int8', at: 'time', delivery: 'int8', accepted_at: 'time', type: 'int2', destination: 'text' },
      ...{ source: 'text', message_id: 'text', user_id: 'text', conflict: 'text', body: 'text' },
    },
    from: `SELECT id, at, delivery, accepted_at, type, ${nameOf('destination')}, ${nameOf('source')}, message_id, user_id, conflict,
      body FROM delivered`,
  },
  {
    name: 'backlog',
    columns: { destination: 'text', part: 'int8', pending: 'int8', dead: 'int8', queued: 'int8', held_out: 'int8' },
    from: `SELECT ${nameOf('destination')}, 0, sum(pending), sum(dead), sum(queued), sum(held_out) FROM (
      SELECT destination, 1 AS pending, 0 AS dead, tries = 0 AND lane <> 0 AS queued, 0 AS held_out
      FROM delivery d WHERE ${STAYS}
      UNION ALL SELECT destination, 0, 1, 0, reason = 'queue_full' FROM dead_letter) GROUP BY destination`,
  },
  {
    name: 'attempt',
    columns: {
      ...{ id: 'int8', at: 'time', delivery: 'int8', status: 'int4', ms: 'int4', type: 'int2', outcome: 'int2' },
      ...{ destination: 'text', endpoint: 'text', source: 'text', message_id: 'text', user_id: 'text' },
      ...{ error: 'text', response: 'text' },
    },
    from: `SELECT id, at, delivery, status, ms, type, outcome, ${nameOf('destination')}, ${nameOf('endpoint')},
      ${nameOf('source')}, message_id, user_id, error, response FROM attempt`,
  },
  {
    name: 'discard',
    columns: { id: 'int8', source: 'text', code: 'text', at: 'time', message: 'text' },
    from: 'SELECT id, source, code, at, message FROM discard',
  },
  {
    name: 'audit',
    columns: { id: 'int8', at: 'time', who: 'text', action: 'text', target: 'text', outcome: 'text' },
    from: 'SELECT id, at, who, action, target, outcome FROM audit',
  },
  {
    name: 'alert',
    columns: {
      ...{ id: 'text', kind: 'text', subject: 'text', first_at: 'time', opened_at: 'time', gone_at: 'time' },
      ...{ closed_at: 'time', opening_at: 'time', closing_at: 'time', is_over: 'int2', record: 'text' },
    },
    from: `SELECT id, kind, subject, first_at, opened_at, gone_at, closed_at, opening_at, closing_at, is_over, record
      FROM alert ORDER BY seq`,
  },
  {
    name: 'rollup',
    columns: {
      ...{ subject: 'int2', name: 'text', step: 'int2', at: 'int8' },
      ...(Object.fromEntries(HISTORY_COLUMNS.map((column) => [column, 'int8'])) as Record<string, Type>),
    },
    from: `SELECT subject, name, step, at, ${HISTORY_COLUMNS.join(', ')} FROM rollup`,
  },
  {
    name: 'endpoint',
    columns: {
      ...{ endpoint: 'text', destination: 'text', paused_at: 'time', dead_since: 'time' },
      ...{ refusing_since: 'time', refused_from: 'time', taken_at: 'time' },
    },
    from: 'SELECT endpoint, destination, paused_at, dead_since, refusing_since, refused_from, taken_at FROM endpoint',
  },
  {
    name: 'lease',
    columns: { name: 'text', token: 'int8', lease_until: 'int8', holder: 'text' },
    from: "SELECT name, token, 0, '' FROM lease",
  },
  {
    name: 'orphan',
    columns: { destination: 'text', since: 'int8', unknown_for: 'int8' },
    from: 'SELECT destination, since, unknown_for FROM orphan',
  },
  {
    name: 'configuration',
    columns: { hash: 'text', generation: 'int8' },
    from: 'SELECT hash, generation FROM configuration',
  },
  {
    name: 'audience_generation',
    columns: { key: 'text', generation: 'int8', definition: 'text' },
    from: 'SELECT key, generation, definition FROM audience_generation',
  },
  {
    name: 'last_sequence',
    columns: { key: 'text', sequence: 'int8' },
    from: 'SELECT key, sequence FROM last_sequence',
  },
  {
    name: 'audience_pause',
    columns: { key: 'text', at: 'time', who: 'text' },
    from: 'SELECT key, at, who FROM audience_pause',
  },
  { name: 'audience', columns: { key: 'text', record: 'text' }, from: 'SELECT key, record FROM audience' },
  {
    name: 'run',
    columns: {
      ...{ id: 'text', key: 'text', state: 'text', started_at: 'int8', cursor: 'text', sent: 'int8', record: 'text' },
    },
    from: 'SELECT id, key, state, started_at, cursor, sent, record FROM run ORDER BY seq',
  },
  {
    name: 'run_progress',
    columns: {
      ...{ run: 'text', part: 'int8', deliveries: 'int8', untried: 'int8', delivered: 'int8', dead: 'int8' },
      superseded: 'int8',
    },
    // Claims that are over with count as superseded.
    from: `SELECT r.run, 0, deliveries, r.untried - coalesce(o.untried, 0), delivered, dead,
      superseded + coalesce(o.count, 0) FROM run_progress r LEFT JOIN (
        SELECT ${nameOf('run')} AS run, count(*) AS count, sum(tries = 0) AS untried FROM delivery d
        WHERE state = ${CLAIMED} AND conflict IS NOT NULL AND ${IS_REPLACED} GROUP BY d.run) o ON o.run = r.run`,
  },
  {
    name: 'regulation',
    columns: { id: 'text', status: 'text', created_at: 'int8', record: 'text' },
    from: 'SELECT id, status, created_at, record FROM regulation',
  },
  {
    name: 'notice_confirmation',
    columns: { regulation: 'text', destination: 'text', notice: 'text', at: 'time' },
    from: 'SELECT regulation, destination, notice, at FROM notice_confirmation',
  },
  { name: 'suppression', columns: { hash: 'hash' }, from: 'SELECT hash FROM suppression' },
  {
    name: 'deletion',
    columns: { hash: 'hash', regulation: 'text', epoch: 'int8', is_open: 'int2' },
    from: 'SELECT hash, regulation, epoch, is_open FROM deletion',
  },
];
