import type { Records, Run, RunState } from '../../src/store/port.ts';
import { changesMembership } from './run-changes.ts';

/** The wait after the first failure, and the longest one, in milliseconds. */
const FIRST_WAIT = 5_000;
const LONGEST_WAIT = 15 * 60_000;
/** When to go on with a run that failed while it was sent. */
const UNFINISHED_WAIT = 30_000;
/** More failures than this wait no longer. */
const ENOUGH = 10;
/** Failures that only a person can mend: the next tick looks again. */
const FOR_A_PERSON = new Set(['snapshot_lost', 'snapshot_moved', 'engine_changed', 'column_taken']);

/**
 * When to try again what failed since `tick`: sooner after the first failures than after many. Null when the last try did
 * not fail. Read from the runs, so that all processes agree.
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

/** By the number of failures in a row, in milliseconds. */
export function waitAfter(failures: number): number {
  return Math.min(FIRST_WAIT * 2 ** (failures - 1), LONGEST_WAIT);
}

/** Runs looked at: those for one destination come between. */
const RECENT = 10;
const UNDER_WAY: ReadonlySet<RunState> = new Set<RunState>(['staged', 'sending', 'committed']);

/** Whether it failed, or goes on failing where it was. */
function hasFailed({ state, code }: Pick<Run, 'state' | 'code'>): boolean {
  return state === 'failed' || (UNDER_WAY.has(state) && code !== null);
}

/** When the first of the failures began that this one is the last of. Each run that failed says it, so that none is counted. */
export async function failingSince(store: Pick<Records, 'runs'>, run: Run): Promise<number> {
  const runs = await store.runs({ key: run.key, limit: RECENT });
  const before = runs.find(({ id, ...each }) => id !== run.id && changesMembership(each));
  return before && hasFailed(before) ? sinceOf(before) : run.startedAt;
}

/** When the failures began that this run is the last of. */
export function sinceOf({ failingSince, startedAt }: Pick<Run, 'failingSince' | 'startedAt'>): number {
  return failingSince ?? startedAt;
}

/**
 * Of runs with the newest first, the one whose failure stands. While a run only computes, the failure before it is not over:
 * it may fail again.
 */
export function standingFailure(runs: readonly Run[]): Run | null {
  const [last, before] = runs.filter(changesMembership);
  if (!last) return null;
  const isTry = last.state === 'staged' && last.code === null;
  const judged = isTry ? before : last;
  return judged && hasFailed(judged) ? judged : null;
}
