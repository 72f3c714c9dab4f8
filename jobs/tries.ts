import type { Store } from '../src/store/port.ts';

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
  store: Pick<Store, 'runs'>,
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
