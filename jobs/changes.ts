import type { Run } from '../src/store/port.ts';
import type { Engine, RunChange } from './engines/port.ts';

/** Rows of a plan read at once. */
const BATCH = 5_000;

/** Runs that change a membership; the others only repeat it for somebody. */
export const changesMembership = ({ action }: Pick<Run, 'action'>): boolean =>
  action === 'sync' || action === 'resync' || action === 'retire';

/** Who entered, left or changed by a run; of one that is not done, who would. Nobody by one that failed or was rejected. */
export async function* changesOf(engine: Engine, run: Run): AsyncGenerator<readonly RunChange[]> {
  if (!changesMembership(run)) return;
  if (run.state === 'done') yield* engine.runChanges(run.key, run.toVersion);
  else if (run.state !== 'failed' && run.state !== 'rejected') yield* plannedChanges(engine, run);
}

async function* plannedChanges(engine: Engine, run: Run): AsyncGenerator<readonly RunChange[]> {
  if (!(await engine.staged(run.id))) return;
  for (let after = 0; ; ) {
    const { userIds, present, values, positions } = await engine.changes(run.id, after, BATCH);
    const last = positions.at(-1);
    if (last === undefined) return;
    const before = await engine.lookup(run.key, userIds);
    yield userIds.flatMap((userId, row): RunChange[] => {
      const standing = before.get(userId);
      const value = values[row] ?? null;
      if (!present[row]) return standing?.present ? [{ userId, change: 'exited', value: null }] : [];
      if (!standing?.present) return [{ userId, change: 'entered', value }];
      return standing.value === value ? [] : [{ userId, change: 'changed', value }];
    });
    after = last;
  }
}
