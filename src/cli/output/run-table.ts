import { EMPTY_AT_FIRST, isEmptyAtFirst } from '../../../jobs/index.ts';
import { deliveryCounts } from '../../admin/lines.ts';
import { membersBefore, runLine, tookMs } from '../../admin/run-line.ts';
import type { Run, RunProgress } from '../../store/port.ts';
import { hint } from '../options.ts';
import { duration } from './duration.ts';
import { stateColours } from './state-colours.ts';
import { table } from './table.ts';
import { count, type Terminal } from './terminal.ts';

const COLUMNS = 'run audience action members entered exited changed sent state started took'.split(' ');
/** Columns that move to a second line on a narrow terminal. */
const BELOW = 'action members entered exited changed sent took'.split(' ');
/** Shown in the computed columns of a failed run. */
const UNKNOWN = '-';

export function runTable(runs: readonly Run[], terminal: Terminal): string {
  const colour = stateColours(terminal);
  const rows = runs.map((run) => {
    const took = tookMs(run);
    const before = membersBefore(run);
    const counts =
      before === null ? Array(4).fill(UNKNOWN) : [run.entered, run.exited, run.changed, run.sent].map(String);
    return [
      run.id,
      run.key,
      run.first ? 'first sync' : run.action,
      memberCell(run, before),
      ...counts,
      colour(run.state),
      new Date(run.startedAt).toISOString(),
      took === null ? '' : duration(took),
    ];
  });
  const notes = runs.flatMap((run) => notesOn(run).map((text) => `${run.id}: ${text}`));
  return [
    table(COLUMNS, rows, { width: terminal.stdout.columns, flexible: ['audience'], below: BELOW }),
    ...notes,
  ].join('\n');
}

/** A held or rejected run has not changed the number of members. */
function memberCell({ state, members }: Run, before: number | null): string {
  if (before === null) return UNKNOWN;
  if (state === 'held' && members !== before) return `${before} (${members} once approved)`;
  return String(state === 'rejected' ? before : members);
}

function notesOn({ reason, code, state, ...run }: Run): readonly string[] {
  const isEmpty = isEmptyAtFirst({ ...run, state });
  return [
    ...reasonNote(run),
    ...oddRows(run),
    ...(isEmpty ? [`warning: ${EMPTY_AT_FIRST}`] : []),
    ...(reason === null ? [] : [reasonLine(reason, state, code)]),
  ];
}

/** Reasons that the columns show: three count, the others are actions. */
const SHOWN: ReadonlySet<string> = new Set([
  ...['entered', 'exited', 'changed', 'first_sync', 'resync', 'retired', 'backfill', 'withdrawn'],
]);

function reasonNote({ reasons = {}, skipped = [] }: Pick<Run, 'reasons' | 'skipped'>): readonly string[] {
  const others = Object.entries(reasons).filter(([reason]) => !SHOWN.has(reason));
  return [
    ...others.map(([reason, counted]) => `${counted} by reason ${reason}`),
    ...(skipped.length > 0 ? [`nothing to ${skipped.join(', ')}, by backfill: skip`] : []),
  ];
}

/** The first line of an engine's message says what is wrong. --json has all of them. */
function reasonLine(reason: string, state: Run['state'], code: string | null): string {
  const [line = ''] = reason.split('\n');
  if (state === 'done') return `approved: ${line}`;
  return state === 'failed' && code !== null ? `${code}: ${line}` : line;
}

/** @param names - columns of an audience's result that it does not name */
export const unnamedText = (names: readonly string[]): string =>
  `the SQL also returns ${names.join(', ')}, which nothing sends: \`with\` names what goes along`;

export function oddRows({
  kind,
  invalid,
  duplicates,
}: Pick<Run, 'kind' | 'invalid' | 'duplicates'>): readonly string[] {
  const tooLong = kind === 'trait' ? ', or with a value of more than 250,000 characters' : '';
  return [
    ...(invalid > 0 ? [`${count(invalid, 'row')} without a usable user_id${tooLong}`] : []),
    ...(duplicates > 0 ? [`${count(duplicates, 'row')} beyond the first of their user`] : []),
  ];
}

export function runLines(runs: readonly Run[]) {
  return runs.map(runLine);
}

export function deliverySummary(progress: RunProgress, options: { readonly config: string }): string {
  const { total, delivered, superseded, dead, waiting } = deliveryCounts(progress);
  if (total === 0) return 'Nothing to deliver.';
  const parts = [
    `${delivered} delivered`,
    ...(superseded > 0 ? [`${superseded} superseded by newer ones`] : []),
    ...(dead > 0 ? [`${dead} dead (${hint(options, 'dead-letters list')})`] : []),
    ...(waiting > 0 ? [`${waiting} waiting, to be tried again (${hint(options, 'endpoints list')})`] : []),
  ];
  return `${count(total, 'delivery', 'deliveries')}: ${parts.join(', ')}.`;
}

/** The commands that approve or reject a held run. */
export function decision({ key, id }: Pick<Run, 'key' | 'id'>, options: { readonly config: string }): string {
  return `${key} is held: ${hint(options, `approve ${id}`)}, or ${hint(options, `reject ${id}`)}`;
}
