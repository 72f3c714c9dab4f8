import {
  HISTORY_BUCKETS,
  HISTORY_COUNTS,
  HISTORY_KEPT,
  HISTORY_STEPS,
  HISTORY_SUBJECTS,
  type HistoryCounts,
  type HistoryEntry,
  type HistoryFilter,
  type HistoryPoint,
  type HistoryStep,
  type HistorySubject,
  type HistorySum,
  stepOf,
} from '../history.ts';
import { join, raw, type Sql, sql } from '../sql.ts';
import { listed } from './listed.ts';
import type { Session } from './session.ts';

const BUCKETS = Array.from({ length: HISTORY_BUCKETS }, (_, place) => `took_${place}`);
const GAUGES = ['pending', 'oldest', 'members'] as const;
const SUMMED = [...HISTORY_COUNTS, ...BUCKETS];
export const HISTORY_COLUMNS: readonly string[] = [...SUMMED, ...GAUGES];
const COLUMNS = ['subject', 'name', 'step', 'at', ...HISTORY_COLUMNS];
const list = (names: readonly string[]) => raw(names.join(', '));

const greater = (column: string) =>
  `${column} = CASE WHEN h.${column} > excluded.${column} THEN h.${column} ELSE coalesce(excluded.${column}, h.${column}) END`;
/** Each process adds its counts. */
const ADDED = list([
  ...SUMMED.map((column) => `${column} = h.${column} + excluded.${column}`),
  ...[greater('pending'), greater('oldest'), 'members = coalesce(excluded.members, h.members)'],
]);

/** Adds to the minute, the hour and the day of `at`. Rows are sorted so that two processes never deadlock. */
export async function addHistory(session: Session, at: number, entries: readonly HistoryEntry[]): Promise<void> {
  if (entries.length === 0) return;
  const sorted = entries.toSorted((a, b) => subjectCode(a) - subjectCode(b) || (a.name < b.name ? -1 : 1));
  const rows = sorted.flatMap((entry) => HISTORY_STEPS.map((step) => rowOf(entry, at, step)));
  const { from, text, number } = listed(session.dialect, rows);
  const values = COLUMNS.map((column, place) => (column === 'name' ? text(place) : number(place)));
  await session.run(sql`INSERT INTO rollcall.rollup AS h (${list(COLUMNS)})
    SELECT ${join(values, ', ')} FROM ${from} WHERE true
    ON CONFLICT (subject, name, step, at) DO UPDATE SET ${ADDED}`);
}

const subjectCode = ({ subject }: { readonly subject: HistorySubject }) => HISTORY_SUBJECTS.indexOf(subject);

function rowOf(entry: HistoryEntry, at: number, step: HistoryStep): (string | number | null)[] {
  const { counts = {}, took = [], pending = null, oldest = null, members = null } = entry;
  return [
    ...[subjectCode(entry), plain(entry.name), HISTORY_STEPS.indexOf(step), stepOf(at, step)],
    ...HISTORY_COUNTS.map((name) => counts[name] ?? 0),
    ...BUCKETS.map((_, place) => took[place] ?? 0),
    ...[pending, oldest, members],
  ];
}

/** Postgres can't read other text from JSON. */
const plain = (name: string) => name.toWellFormed().replaceAll('\0', '\ufffd');

/** In order of time. */
export async function history({ rows }: Session, filter: HistoryFilter): Promise<HistoryPoint[]> {
  const { subject, name, step, since, until, limit } = filter;
  const found = await rows<(number | null)[]>(sql`
    SELECT at, ${list([...GAUGES, ...SUMMED])} FROM rollcall.rollup
    WHERE subject = ${subjectCode({ subject })} AND name = ${plain(name)} AND step = ${HISTORY_STEPS.indexOf(step)}
      AND at >= ${since} AND at < ${until} ORDER BY at DESC LIMIT ${limit}`);
  return found
    .map(([at = 0, pending = null, oldest = null, members = null, ...sums]) => ({
      ...{ at: at ?? 0, pending, oldest, members },
      ...totalsOf(sums),
    }))
    .toReversed();
}

/** Sums over the steps from `since` on, for each subject of a kind or those named. Empty subjects are missing. */
export async function historySums(
  { rows }: Session,
  subject: HistorySubject,
  step: HistoryStep,
  since: number,
  names?: readonly string[],
): Promise<HistorySum[]> {
  if (names?.length === 0) return [];
  const sums = list(SUMMED.map((column) => `CAST(sum(${column}) AS bigint)`));
  const found = await rows<[name: string, ...sums: number[]]>(sql`
    SELECT name, ${sums} FROM rollcall.rollup
    WHERE subject = ${subjectCode({ subject })} AND step = ${HISTORY_STEPS.indexOf(step)} AND at >= ${since}
      ${names === undefined ? raw('') : sql`AND name IN (${join(names.map(named), ', ')})`}
    GROUP BY name ORDER BY name`);
  return found.map(([name, ...sums]) => ({ name, ...totalsOf(sums) }));
}

export async function sizes(
  { rows }: Session,
  names: readonly string[],
  step: HistoryStep,
  since: number,
): Promise<ReadonlyMap<string, readonly number[]>> {
  if (names.length === 0) return new Map();
  const found = await rows<[name: string, members: number]>(sql`SELECT name, members FROM rollcall.rollup
    WHERE subject = ${subjectCode({ subject: 'audience' })} AND step = ${HISTORY_STEPS.indexOf(step)} AND at >= ${since}
      AND name IN (${join(names.map(named), ', ')}) AND members IS NOT NULL
    ORDER BY at`);
  const byName = Map.groupBy(found, ([name]) => name);
  return new Map([...byName].map(([name, all]) => [name, all.map(([, members]) => members)]));
}

const named = (name: string) => sql`${plain(name)}`;

function totalsOf(sums: readonly (number | null)[]): Pick<HistorySum, 'counts' | 'took'> {
  const counts = Object.fromEntries(HISTORY_COUNTS.map((name, place) => [name, sums[place] ?? 0]));
  return { counts: counts as HistoryCounts, took: sums.slice(HISTORY_COUNTS.length).map((count) => count ?? 0) };
}

/** Drops steps past their retention, oldest first; resolves to the number of rows, at most `limit`. */
export async function pruneHistory({ run }: Session, now: number, limit: number): Promise<number> {
  let pruned = 0;
  for (const [code, step] of HISTORY_STEPS.entries()) {
    const old = (from: Sql) => sql`SELECT subject, name, step, at FROM rollcall.rollup
      WHERE step = ${code} AND at < ${from} ORDER BY at LIMIT ${limit - pruned}`;
    pruned += await run(sql`DELETE FROM rollcall.rollup
      WHERE (subject, name, step, at) IN (${old(sql`${now - HISTORY_KEPT[step]}`)})`);
  }
  return pruned;
}
