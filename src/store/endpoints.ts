/** An endpoint's state, which the store keeps over restarts. */
export interface EndpointState {
  readonly endpoint: string;
  readonly destination: string;
  /** Paused by a 410 until a person resumes it. */
  readonly pausedAt: number | null;
  /** Since when it answers no probe. */
  readonly deadSince: number | null;
  /** While it refuses everything, and then until all that it refused is queued again. */
  readonly refusal?: Refusal | null;
}

/** An endpoint refuses everything, or did. */
export interface Refusal {
  /** Since when; null once it refuses no longer, or once a person has it tried again. */
  readonly since: number | null;
  /** Its last success before: all that it refused since is sent again. */
  readonly from: number;
  /** When it took one again; null before. */
  readonly takenAt: number | null;
}

/** Why an endpoint takes nothing for now, probes aside; `open` if it does. */
export function whyClosed({ pausedAt, deadSince, refusal }: EndpointState): 'paused' | 'refusing' | 'dead' | 'open' {
  if (pausedAt !== null) return 'paused';
  if ((refusal?.since ?? null) !== null) return 'refusing';
  return deadSince !== null ? 'dead' : 'open';
}

export function isClosed(state: EndpointState): boolean {
  return whyClosed(state) !== 'open';
}

/** Whether there is nothing to remember of an endpoint. */
export function isOrdinary(state: EndpointState): boolean {
  return !isClosed(state) && !state.refusal;
}

/** As a store has it; empty for an endpoint that refused nothing. */
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
  /** Dead letters, those held out included. */
  readonly dead: number;
  /** Pending deliveries that count towards `maxQueued`: not tried yet, and no deletion notices. */
  readonly queued: number;
  /** Dead letters `queue_full`. While there are any, whatever is new joins them. */
  readonly heldOut: number;
}

/** How long a destination's oldest delivery has waited for its first try. */
export interface OldestUntried {
  readonly destination: string;
  readonly since: number;
}

/** Endpoints over restarts, and what waits for their destinations. */
export interface EndpointRecords {
  /** One row per destination that was ever delivered to. */
  backlog(): Promise<readonly Backlog[]>;
  /** Of each destination for which something waits for its first try. */
  oldestUntried(): Promise<readonly OldestUntried[]>;
  endpoints(): Promise<readonly EndpointState[]>;
  markEndpoint(state: EndpointState): Promise<void>;
}
