/** An endpoint's state, kept across restarts. */
export interface EndpointState {
  readonly endpoint: string;
  readonly destination: string;
  /** Paused, by a 410 or a person, until a person resumes it. */
  readonly pausedAt: number | null;
  /** Time it died: no probe has succeeded since. */
  readonly deadSince: number | null;
  /** What its last request failed with when it died, such as `status_500` or `ECONNREFUSED`. */
  readonly deadCause?: string | null;
  /** The beginning of its answer to that request. */
  readonly deadAnswer?: string | null;
  /** Set while the endpoint refuses everything, and until all that it refused is requeued. */
  readonly refusal?: Refusal | null;
}

export interface Refusal {
  /** Start; null once it accepts again, or once a person has it tried again. */
  readonly since: number | null;
  /** Last success before it: everything refused since then is sent again. */
  readonly from: number;
  /** Time of the first success after it; null before. */
  readonly takenAt: number | null;
}

/** Why nothing but probes is sent to an endpoint; `open` if it is open. */
export function whyClosed({ pausedAt, deadSince, refusal }: EndpointState): 'paused' | 'refusing' | 'dead' | 'open' {
  if (pausedAt !== null) return 'paused';
  if ((refusal?.since ?? null) !== null) return 'refusing';
  return deadSince !== null ? 'dead' : 'open';
}

export function isClosed(state: EndpointState): boolean {
  return whyClosed(state) !== 'open';
}

/** True if the store needs no record of this state. */
export function isOrdinary(state: EndpointState): boolean {
  return !isClosed(state) && !state.refusal;
}

/** Builds the refusal from a store's columns; empty if there is none. */
export function refusalOf(
  since: number | null = null,
  from: number | null = null,
  takenAt: number | null = null,
): { readonly refusal?: Refusal } {
  return from === null ? {} : { refusal: { since, from, takenAt } };
}

export interface Backlog {
  readonly destination: string;
  /** Deliveries neither delivered nor dead. */
  readonly pending: number;
  /** Dead letters, including those held out. */
  readonly dead: number;
  /** Pending deliveries that count towards `maxQueued`: untried, deletion notices excluded. */
  readonly queued: number;
  /** Dead letters with `queue_full`. While there are any, new deliveries join them. */
  readonly heldOut: number;
}

export interface OldestUntried {
  readonly destination: string;
  readonly since: number;
}

/** All that other processes may have changed for a process that delivers. */
export interface Polled {
  readonly backlogs: readonly Backlog[];
  readonly endpoints: readonly EndpointState[];
}

export interface EndpointRecords {
  /** One row per destination that was ever delivered to. */
  backlog(): Promise<readonly Backlog[]>;
  oldestUntried(): Promise<readonly OldestUntried[]>;
  endpoints(): Promise<readonly EndpointState[]>;
  /** The results of `backlog` and `endpoints`. */
  poll(): Promise<Polled>;
  markEndpoint(state: EndpointState): Promise<void>;
}
