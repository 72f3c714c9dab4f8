import ms from 'ms';
import type { Run, RunProgress } from '../store/port.ts';
import { count, table } from './terminal.ts';

const COLUMNS = 'run audience action members entered exited changed sent state started took'.split(' ');

/** Runs as a table for people. */
export function runTable(runs: readonly Run[]): string {
  const rows = runs.map((run) => [
    run.id,
    run.key,
    run.first ? 'first sync' : run.action,
    ...[run.members, run.entered, run.exited, run.changed, run.sent].map(String),
    run.state,
    new Date(run.startedAt).toISOString(),
    run.finishedAt === null ? '' : ms(run.finishedAt - run.startedAt),
  ]);
  const notes = runs.flatMap((run) => notesOn(run).map((text) => `${run.id}: ${text}`));
  return [table(COLUMNS, rows), ...notes].join('\n');
}

function notesOn({ invalid, duplicates, reason }: Run): readonly string[] {
  return [...oddRows(invalid, duplicates), ...(reason === null ? [] : [reason])];
}

/** What a query returned beside one row per user. */
export function oddRows(invalid: number, duplicates: number): readonly string[] {
  return [
    ...(invalid > 0 ? [`${count(invalid, 'row')} without a usable user_id`] : []),
    ...(duplicates > 0 ? [`${count(duplicates, 'row')} beyond the first of their user`] : []),
  ];
}

/** The JSON lines of runs (design section 5). */
export async function runLines(runs: readonly Run[]) {
  // Loaded only here: it brings the engines along.
  const { runLine } = await import('../../jobs/index.ts');
  return runs.map(runLine);
}

/** The JSON lines of runs in the history: those of a sync, and what became of each. */
export async function historyLines(runs: readonly Run[]) {
  const lines = await runLines(runs);
  return runs.map(({ action, state, changed, reason, code, definitionHash, asOf }, index) => ({
    ...lines[index],
    action,
    state,
    changed,
    reason,
    code,
    definitionHash,
    asOf: new Date(asOf).toISOString(),
  }));
}

/** What became of the deliveries of some runs, in a sentence. */
export function deliverySummary({ deliveries, delivered, dead, superseded }: RunProgress): string {
  if (deliveries === 0) return 'Nothing to deliver.';
  const waiting = deliveries - delivered - dead - superseded;
  const parts = [
    `${delivered} delivered`,
    ...(superseded > 0 ? [`${superseded} superseded by newer ones`] : []),
    ...(dead > 0 ? [`${dead} dead (rollcall dead-letters list)`] : []),
    ...(waiting > 0 ? [`${waiting} waiting, to be tried again (rollcall endpoints list)`] : []),
  ];
  return `${count(deliveries, 'delivery', 'deliveries')}: ${parts.join(', ')}.`;
}
