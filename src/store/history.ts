/** The steps that history is kept in, from fine to coarse. Their places are codes of the disk format. */
export const HISTORY_STEPS = ['minute', 'hour', 'day'] as const;
export type HistoryStep = (typeof HISTORY_STEPS)[number];

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How long a step is, in milliseconds. Days are those of UTC. */
export const STEP_LENGTH: Readonly<Record<HistoryStep, number>> = { minute: MINUTE, hour: HOUR, day: DAY };
/** How long each is kept, in milliseconds. */
export const HISTORY_KEPT: Readonly<Record<HistoryStep, number>> = {
  minute: 25 * HOUR,
  hour: 32 * DAY,
  day: 400 * DAY,
};

/** Subjects of history; `all` is the sum over destinations, and has no name. Their places are codes of the disk format. */
export const HISTORY_SUBJECTS = ['all', 'source', 'destination', 'endpoint', 'audience'] as const;
export type HistorySubject = (typeof HISTORY_SUBJECTS)[number];

/**
 * Counts. For a destination, `delivered`, `retried` and `dead` are results of tries. For an endpoint, they are attempts
 * that it took, that are made again, and that it refused for good.
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
/** Columns for the counts within these bounds and beyond the last. */
export const HISTORY_BUCKETS = DELIVERY_BOUNDS.length + 1;

/** Counts since the last entry of the kind. */
export interface HistoryEntry {
  readonly subject: HistorySubject;
  readonly name: string;
  readonly counts?: Partial<HistoryCounts>;
  /** Deliveries that wait, and the age of the oldest untried one in milliseconds; the highest of a step is kept. */
  readonly pending?: number;
  readonly oldest?: number;
  /** Of an audience; the last of a step is kept. */
  readonly members?: number;
  /** How many took how long, by the subject's bounds. */
  readonly took?: readonly number[];
}

interface HistoryTotals {
  readonly counts: HistoryCounts;
  /** As in an entry; as many as there are columns. */
  readonly took: readonly number[];
}

/** Counts of one step. */
export interface HistoryPoint extends HistoryTotals {
  /** When the step begins. */
  readonly at: number;
  /** Null where nobody looked. */
  readonly pending: number | null;
  readonly oldest: number | null;
  readonly members: number | null;
}

/** Counts of one subject over many steps. */
export interface HistorySum extends HistoryTotals {
  readonly name: string;
}

export interface HistoryFilter {
  readonly subject: HistorySubject;
  readonly name: string;
  readonly step: HistoryStep;
  /** Steps that begin from here on. */
  readonly since: number;
  /** Steps that begin before. */
  readonly until: number;
  /** The newest of them at most. */
  readonly limit: number;
}

/** The beginning of the step that a moment is in. */
export const stepOf = (at: number, step: HistoryStep): number => at - (at % STEP_LENGTH[step]);

/** Counts of the past, step by step. */
export interface HistoryRecords {
  /** Adds to the minute, the hour and the day that `at` is in, by the wall clock. */
  addHistory(at: number, entries: readonly HistoryEntry[]): Promise<void>;
  /** In the order of time, without steps in which nothing happened. */
  history(filter: HistoryFilter): Promise<readonly HistoryPoint[]>;
  /** For each subject of a kind, the sums over the steps from `since` on; subjects to which nothing happened are missing. */
  historySums(
    subject: HistorySubject,
    step: HistoryStep,
    since: number,
    /** Only of these. */
    names?: readonly string[],
  ): Promise<readonly HistorySum[]>;
  /** Drops what is older than it is kept; at most `limit` rows. */
  pruneHistory(now: number, limit: number): Promise<number>;
}
