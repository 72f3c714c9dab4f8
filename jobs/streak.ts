import type { Run, RunState, Store } from '../src/store/port.ts';
import { changesMembership } from './changes.ts';

/** Runs looked at: those for one destination come between. */
const RECENT = 10;
const UNDER_WAY: ReadonlySet<RunState> = new Set<RunState>(['staged', 'sending', 'committed']);

/** Whether it failed, or goes on failing where it was. */
function hasFailed({ state, code }: Pick<Run, 'state' | 'code'>): boolean {
  return state === 'failed' || (UNDER_WAY.has(state) && code !== null);
}

/** When the first of the failures began that this one is the last of. Each run that failed says it, so that none is counted. */
export async function failingSince(store: Pick<Store, 'runs'>, run: Run): Promise<number> {
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
