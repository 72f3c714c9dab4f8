import type { Run } from '../../src/store/port.ts';
import type { ChangeBatch, Engine, RunChange } from '../engines/port.ts';

const BATCH = 5_000;

/** True for runs that change a membership. Others only repeat it for a destination. */
export const changesMembership = ({ action }: Pick<Run, 'action'>): boolean =>
  action === 'sync' || action === 'resync' || action === 'retire';

/** Users who entered, left or changed by a run, or would by an unfinished one. None for a failed or rejected run. */
export async function* changesOf(engine: Engine, run: Run): AsyncGenerator<readonly RunChange[]> {
  if (!changesMembership(run)) return;
  if (run.state === 'done') yield* engine.runChanges(run.key, run.toVersion);
  else if (run.state !== 'failed' && run.state !== 'rejected') yield* plannedChanges(engine, run);
}

async function* plannedChanges(engine: Engine, run: Run): AsyncGenerator<readonly RunChange[]> {
  if (!(await engine.staged(run.id))) return;
  for (let after = 0; ; ) {
    const rows = await engine.changes(run.id, after, BATCH);
    const last = rows.positions.at(-1);
    if (last === undefined) return;
    yield await comparedWithSnapshot(engine, run, rows);
    after = last;
  }
}

async function comparedWithSnapshot(
  engine: Engine,
  { key }: Run,
  { userIds, present, values }: ChangeBatch,
): Promise<readonly RunChange[]> {
  const before = await engine.lookup(key, userIds);
  return userIds.flatMap((userId, row): RunChange[] => {
    const standing = before.get(userId);
    const value = values[row] ?? null;
    if (!present[row]) return standing?.present ? [{ userId, change: 'exited', value: null }] : [];
    if (!standing?.present) return [{ userId, change: 'entered', value }];
    return standing.value === value ? [] : [{ userId, change: 'changed', value }];
  });
}

/** The end of a page of changes, which are ordered by user id, planned or done. */
export interface ChangePlace {
  /** Position in the plan, while there is one. */
  readonly position: number;
  readonly user: string;
}

export const FIRST_CHANGE: ChangePlace = { position: 0, user: '' };

/** May be short or empty before the last page: a plan also repeats known values. */
export interface ChangePage {
  readonly changes: readonly RunChange[];
  /** Null after the last page. */
  readonly next: ChangePlace | null;
}

/** Compares ids as engines sort them. */
export const compareIds = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

export async function changePageOf(engine: Engine, run: Run, after: ChangePlace, limit: number): Promise<ChangePage> {
  if (!changesMembership(run) || run.state === 'failed' || run.state === 'rejected') return { changes: [], next: null };
  if (run.state === 'done') {
    const found = await engine.runChangePage(run.key, run.toVersion, after.user, limit + 1);
    const changes = found.slice(0, limit);
    const user = changes.at(-1)?.userId ?? '';
    return { changes, next: found.length > limit ? { position: 0, user } : null };
  }
  if (!(await engine.staged(run.id))) return { changes: [], next: null };
  const rows = await engine.changes(run.id, after.position, limit);
  const [position, user] = [rows.positions.at(-1), rows.userIds.at(-1)];
  if (position === undefined || user === undefined) return { changes: [], next: null };
  const changes = (await comparedWithSnapshot(engine, run, rows)).filter(
    ({ userId }) => compareIds(userId, after.user) > 0,
  );
  const isLast = (await engine.changes(run.id, position, 1)).positions.length === 0;
  return { changes, next: isLast ? null : { position, user } };
}
