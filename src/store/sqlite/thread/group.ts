import type { Operation } from './verbs.ts';

/** Operations as they are sent to the store's thread together. Groups that wait there share one commit. */
export interface OperationGroup {
  readonly operations: readonly Operation[];
  /** Whether they must be on disk before they are answered. */
  readonly needsSync: boolean;
  readonly weight: number;
}

/**
 * A transaction takes operations until this weight is reached. Each weighs as much as so many messages, beside its own. By
 * operations alone, a crowd of single calls would need one commit after the other, for which everyone waits.
 */
export const GROUP_WEIGHT = 7_000;
export const OPERATION_WEIGHT = 10;
/** Messages that an operation is taken to be about, where nobody says. */
export const USUAL_MESSAGES = 100;
/**
 * A commit of this weight is synced by the main thread, so that the store's thread goes on with the next meanwhile. A lighter one
 * it syncs itself: to hand it on would cost more than it saves.
 */
export const HEAVY = 1_000;
/**
 * So much is sent while the thread is at work: it then goes on without a look at the main thread, which may be busy for
 * milliseconds. What is less waits, as each group costs both threads some.
 */
export const AHEAD = 300;
