import type { Records, Run, RunState } from '../../src/store/port.ts';
import { changesMembership } from './run-changes.ts';

/** The wait after the first failure, and the longest one, in milliseconds. */
const FIRST_WAIT = 5_000;
const LONGEST_WAIT = 15 * 60_000;
/** Milliseconds until a run that failed while sending continues. */
const UNFINISHED_WAIT = 30_000;
/** More failures than this don't make the wait longer. */
const ENOUGH = 10;
/** Failures that only a person can fix: not retried before the next tick. */
const FOR_A_PERSON = new Set(['snapshot_lost', 'snapshot_moved', 'snapshot_foreign', 'engine_changed', 'column_taken']);

/**
 * The time of the next retry after failures since `tick`, with growing waits; null if no retry is due. Computed from
 * the stored runs, so that all processes agree.
 */
export async function nextTryAt(
  store: Pick<Records, 'runs'>,
  key: string,
  tick: number,
  now: number,
): Promise<number | null> {
  const runs = await store.runs({ key, limit: ENOUGH });
  const [last] = runs;
  if (!last || last.code === null || FOR_A_PERSON.has(last.code)) return null;
  if (last.state === 'sending') return now + UNFINISHED_WAIT;
  const passed = runs.findIndex(({ state, startedAt }) => state !== 'failed' || startedAt < tick);
  const failures = passed < 0 ? runs.length : passed;
  if (failures === 0) return null;
  return (last.finishedAt ?? last.startedAt) + waitAfter(failures);
}

/** The wait after this many failures in a row, in milliseconds. */
export function waitAfter(failures: number): number {
  return Math.min(FIRST_WAIT * 2 ** (failures - 1), LONGEST_WAIT);
}

/** Runs to read: those for one destination may be among them. */
const RECENT = 10;
const UNDER_WAY: ReadonlySet<RunState> = new Set<RunState>(['staged', 'sending', 'committed']);

/** True if it failed, or is unfinished after an error. */
function hasFailed({ state, code }: Pick<Run, 'state' | 'code'>): boolean {
  return state === 'failed' || (UNDER_WAY.has(state) && code !== null);
}

/** Start of the series of failures that a run joins. Each failed run records it, so only the last one has to be read. */
export async function failingSince(store: Pick<Records, 'runs'>, run: Run): Promise<number> {
  const runs = await store.runs({ key: run.key, limit: RECENT });
  const before = runs.find(({ id, ...each }) => id !== run.id && changesMembership(each));
  return before && hasFailed(before) ? sinceOf(before) : run.startedAt;
}

/** Start of the series of failures that this run is the last of. */
export function sinceOf({ failingSince, startedAt }: Pick<Run, 'failingSince' | 'startedAt'>): number {
  return failingSince ?? startedAt;
}

/**
 * The run whose failure stands, given runs with the newest first. While a run only computes, the failure before it
 * stands, since it may fail again.
 */
export function standingFailure(runs: readonly Run[]): Run | null {
  const [last, before] = runs.filter(changesMembership);
  if (!last) return null;
  const isTry = last.state === 'staged' && last.code === null;
  const judged = isTry ? before : last;
  return judged && hasFailed(judged) ? judged : null;
}
