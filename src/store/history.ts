/** History steps, from fine to coarse. The indexes are codes of the disk format. */
export const HISTORY_STEPS = ['minute', 'hour', 'day'] as const;
export type HistoryStep = (typeof HISTORY_STEPS)[number];

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Length of a step in milliseconds. Days are UTC. */
export const STEP_LENGTH: Readonly<Record<HistoryStep, number>> = { minute: MINUTE, hour: HOUR, day: DAY };
/** Retention of each step, in milliseconds. */
export const HISTORY_KEPT: Readonly<Record<HistoryStep, number>> = {
  minute: 25 * HOUR,
  hour: 32 * DAY,
  day: 400 * DAY,
};

/** Subjects of history; `all` sums up destinations and has no name. The indexes are codes of the disk format. */
export const HISTORY_SUBJECTS = ['all', 'source', 'destination', 'endpoint', 'audience'] as const;
export type HistorySubject = (typeof HISTORY_SUBJECTS)[number];

/**
 * Counts. For a destination, `delivered`, `retried` and `dead` count results of tries. For an endpoint, they count
 * attempts that succeeded, that will be retried, and that it refused for good.
 */
export const HISTORY_COUNTS = [
  ...(['accepted', 'delivered', 'retried', 'dead'] as const),
  ...(['duplicates', 'suppressed', 'discarded'] as const),
  ...(['entered', 'exited', 'runs', 'failed'] as const),
] as const;
export type HistoryCounts = Readonly<Record<(typeof HISTORY_COUNTS)[number], number>>;

/** Upper bounds in milliseconds, from acceptance to delivery; retries go on for four hours. */
export const DELIVERY_BOUNDS = [
  ...[10, 50, 100, 500, 1_000, 5_000, 30_000],
  ...[MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 4 * HOUR],
] as const;
/** Upper bounds in milliseconds: an attempt ends at five seconds. */
export const ATTEMPT_BOUNDS = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000] as const;
export const HISTORY_BUCKETS = DELIVERY_BOUNDS.length + 1;

/** Counts since the last entry of the same subject. */
export interface HistoryEntry {
  readonly subject: HistorySubject;
  readonly name: string;
  readonly counts?: Partial<HistoryCounts>;
  /** Waiting deliveries, and the age of the oldest untried one in milliseconds; the maximum of a step is kept. */
  readonly pending?: number;
  readonly oldest?: number;
  /** Members of an audience; the last value of a step is kept. */
  readonly members?: number;
  /** Durations, counted by the subject's bounds. */
  readonly took?: readonly number[];
}

interface HistoryTotals {
  readonly counts: HistoryCounts;
  /** As in an entry; always one per column. */
  readonly took: readonly number[];
}

export interface HistoryPoint extends HistoryTotals {
  readonly at: number;
  /** Null if not measured. */
  readonly pending: number | null;
  readonly oldest: number | null;
  readonly members: number | null;
}

export interface HistorySum extends HistoryTotals {
  readonly name: string;
}

export interface HistoryFilter {
  readonly subject: HistorySubject;
  readonly name: string;
  readonly step: HistoryStep;
  /** Include steps that begin at or after this. */
  readonly since: number;
  /** Include steps that begin before this. */
  readonly until: number;
  /** Keep only this many of the newest steps. */
  readonly limit: number;
}

export const stepOf = (at: number, step: HistoryStep): number => at - (at % STEP_LENGTH[step]);

export interface HistoryRecords {
  /** Adds to the minute, the hour and the day that `at` is in, by the wall clock. */
  addHistory(at: number, entries: readonly HistoryEntry[]): Promise<void>;
  /** In order of time, without empty steps. */
  history(filter: HistoryFilter): Promise<readonly HistoryPoint[]>;
  /** Sums over the steps from `since` on, for each subject of a kind. Empty subjects are missing. */
  historySums(
    subject: HistorySubject,
    step: HistoryStep,
    since: number,
    names?: readonly string[],
  ): Promise<readonly HistorySum[]>;
  /** Members of these audiences at the end of each step from `since` on, oldest first. */
  sizes(names: readonly string[], step: HistoryStep, since: number): Promise<ReadonlyMap<string, readonly number[]>>;
  pruneHistory(now: number, limit: number): Promise<number>;
}
