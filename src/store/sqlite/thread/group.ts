import type { Operation } from './verbs.ts';

/** Operations sent to the store's thread together. Groups that wait there share one commit. */
export interface OperationGroup {
  readonly operations: readonly Operation[];
  /** True if they must be on disk before they are answered. */
  readonly needsSync: boolean;
  readonly weight: number;
}

/**
 * A transaction takes operations until this weight is reached. Each weighs as much as this many messages, plus its own.
 * If operations alone counted, many single calls would need one commit after the other, and everyone would wait.
 */
export const GROUP_WEIGHT = 7_000;
export const OPERATION_WEIGHT = 10;
/** Messages that an operation counts as, unless its caller says otherwise. */
export const USUAL_MESSAGES = 100;
/**
 * Commits of this weight or more are synced by the main thread, while the store's thread goes on with the next. It
 * syncs lighter ones itself: handing them on would cost more than it saves.
 */
export const HEAVY = 1_000;
/**
 * This weight is sent while the thread is busy, so that it can go on without the main thread, which may be busy for
 * milliseconds. Less than this waits, as each group costs both threads something.
 */
export const AHEAD = 300;
