import type { Snapshot, Staged, StageRequest } from '../port.ts';
import { isSilent } from '../sql/plan-query.ts';

/** Users and rows of a plan, as its database counted them. */
interface Counted {
  readonly entered: number;
  readonly exited: number;
  /** Members before and after, of whom something is sent. */
  readonly kept: number;
  /** Those of them with another value or other columns. */
  readonly changed: number;
  /** Users who were and are no members, of whom something is sent. */
  readonly leavers: number;
  /** Rows without a usable id. */
  readonly invalid: number;
  /** Rows with one. */
  readonly usable: number;
}

/** True if the definition's SQL is used. */
export function runsDefinition({ action }: Pick<StageRequest, 'action'>): boolean {
  return action === 'sync' || action === 'resync';
}

/** The counts of a plan, from those of its rows. */
export function stagedOf(
  request: StageRequest,
  snapshot: Snapshot,
  { entered, exited, kept, changed, leavers, invalid, usable }: Counted,
): Omit<Staged, 'columns'> {
  const { plan, key, kind, action, toVersion } = request;
  const before = snapshot.members;
  const stays = action === 'backfill' || action === 'withdraw';
  const members = stays ? before : before + entered - exited;
  return {
    ...{ plan, key, kind, action, fromVersion: snapshot.version, toVersion, before, members, entered, exited },
    ...(isSilent(request) ? { changed: 0, silent: changed } : { changed }),
    invalid,
    duplicates: runsDefinition(request) ? usable - members : 0,
    total: entered + exited + leavers + (isSilent(request) ? 0 : kept),
  };
}
