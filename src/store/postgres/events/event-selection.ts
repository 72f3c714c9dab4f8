import { dayOf } from '../../../kernel/timestamp.ts';
import type { IntegrationCount, SelectedEvent, SelectedRow, Selection } from '../../event-log.ts';
import { replayedMessage, selectedColumns } from '../../events/selection.ts';
import { text } from '../arrays.ts';
import type { Database } from '../database.ts';

const time = (parameter: string) => `timestamp '1970-01-01' + ${parameter}::bigint * interval '1 millisecond'`;

const CONDITION = `type = ANY ($1::text[]) AND ($2::text[] IS NULL OR type <> 'track' OR event = ANY ($2::text[]))
  AND received_at >= ${time('$3')} AND received_at < ${time('$4')}`;

const valuesOf = ({ types, events, since, until }: Omit<Selection, 'day' | 'source'>) => [
  ...[text(types), events && text(events), since, until],
];

const COLUMNS = selectedColumns(
  (json) => `${json}::text`,
  (at) => `(extract(epoch FROM ${at}) * 1000)::bigint::text`,
);

const NEXT = `SELECT seq::text AS place, ${COLUMNS} FROM rollcall.event
  WHERE ${CONDITION} AND day = $5::date AND source = $6 AND seq > $7::bigint ORDER BY seq LIMIT $8::int`;

/** Rows keep their numbers, also when a deletion takes an id from them. */
export async function selectEvents(
  db: Database,
  selection: Selection,
  after: string | null,
  limit: number,
): Promise<readonly SelectedEvent[]> {
  const { day, source } = selection;
  const given = [...valuesOf(selection), day, source, after ?? '0', limit];
  const rows = await db.patient<[string, ...SelectedRow]>(NEXT, given);
  return rows.map(([place, ...row]) => ({ place, message: () => replayedMessage(row) }));
}

const ROWS = `SELECT seq::text, ${COLUMNS} FROM rollcall.event
  WHERE day = $1::date AND source = $2 AND seq > $3::bigint ORDER BY seq LIMIT $4::int`;

export const rowsOfDay = (db: Database, source: string, day: string, after: string, limit: number) =>
  db.patient<[string, ...SelectedRow]>(ROWS, [day, source, after, limit]);

export const groupsBetween = (db: Database, after: string, upTo: string) =>
  db.patient<[string, string]>(
    'SELECT DISTINCT day::text, source FROM rollcall.event WHERE day > $1::date AND day <= $2::date ORDER BY 1, 2',
    [after, upTo],
  );

const COUNT = `SELECT (rest -> 'integrations')::text, count(*)::int FROM rollcall.event
  WHERE ${CONDITION} AND day BETWEEN $5::date AND $6::date AND source = ANY ($7::text[]) GROUP BY 1`;

export function countEvents(
  db: Database,
  selection: Omit<Selection, 'day' | 'source'>,
  sources: readonly string[],
): Promise<readonly IntegrationCount[]> {
  const { since, until } = selection;
  return db.patient<[string | null, number]>(COUNT, [
    ...valuesOf(selection),
    dayOf(since),
    dayOf(until),
    text(sources),
  ]);
}
