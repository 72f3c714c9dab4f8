import type { Attempt, Refusal } from '../../store/port.ts';

/** So many refusals in a row, of two messages at least, make an endpoint one that refuses everything. */
export const REFUSALS = 20;
/** Statuses that speak of the endpoint (its address, its secret) rather than of a message's body; and all redirects. */
const DENIALS: ReadonlySet<number> = new Set([401, 403, 404, 405, 407]);

/** Whether an answer may mean that the endpoint refuses everything. */
export function isDenial({ outcome, status }: Pick<Attempt, 'outcome' | 'status'>): boolean {
  if (outcome !== 'refused' || status === null) return false;
  return DENIALS.has(status) || (status >= 300 && status < 400);
}

/** Recent refusals of one endpoint. All times are the store's. */
export class Refusals {
  /** Null while nothing is to be sent again. */
  state: Refusal | null;
  /** Refusals since the endpoint last gave another answer. */
  row = 0;
  /** When it last took something, as far as this process knows. */
  takenAt: number | null = null;
  private message: string | null = null;
  private hasOthers = false;

  constructor(state: Refusal | null) {
    this.state = state;
  }

  /** Whether it refuses everything, as far as is known. */
  get isRefusing(): boolean {
    return (this.state?.since ?? null) !== null;
  }

  /** Whether the last refusals make it one that refuses everything. */
  get areEnough(): boolean {
    return this.row >= REFUSALS && this.hasOthers;
  }

  denied(message: string): void {
    this.row += 1;
    this.message ??= message;
    this.hasOthers ||= message !== this.message;
  }

  /** It refuses everything: what it refused since `from` is sent again once it takes one. */
  begin(now: number, from: number): void {
    // Deliveries that are owed from before stay owed.
    this.state = { since: now, from: Math.min(from, this.state?.from ?? from), takenAt: null };
  }

  /** Its last success was at this time, as was found out later. */
  correct(from: number): boolean {
    if (!this.state) return false;
    this.state = { ...this.state, from };
    return true;
  }

  /** It answered something else: it refuses this or that message. */
  answered(): void {
    this.row = 0;
    this.message = null;
    this.hasOthers = false;
    if (this.state?.takenAt === null) this.state = { ...this.state, since: null };
  }

  /** It took a message: what it refused is sent again. */
  took(now: number): void {
    this.takenAt = now;
    if (this.row > 0) this.answered();
    if (this.state?.takenAt === null) this.state = { ...this.state, since: null, takenAt: now };
  }
}
