import type { Attempt, Refusal } from '../../store/port.ts';

/** Refusals in a row, of at least two messages, after which an endpoint counts as refusing everything. */
export const REFUSALS = 20;
/** Statuses that are about the endpoint (its address, its secret) rather than a message's body; redirects are, too. */
const DENIALS: ReadonlySet<number> = new Set([401, 403, 404, 405, 407]);

/** True if no request was sent because of the endpoint's certificate or address: no message is at fault. */
export function isUntrusted({ outcome }: Pick<Attempt, 'outcome'>): boolean {
  return outcome === 'tls_untrusted' || outcome === 'address_refused';
}

/** True for a result that may mean that the endpoint refuses everything, and for one that does. */
export function isDenial({ outcome, status }: Pick<Attempt, 'outcome' | 'status'>): boolean {
  if (isUntrusted({ outcome })) return true;
  if (outcome !== 'refused' || status === null) return false;
  return DENIALS.has(status) || (status >= 300 && status < 400);
}

/** Recent refusals of one endpoint. Times are store time. */
export class Refusals {
  /** Null while nothing is to be sent again. */
  state: Refusal | null;
  /** Refusals since the endpoint last gave another answer. */
  row = 0;
  /** Last success, as far as this process knows. */
  takenAt: number | null = null;
  private message: string | null = null;
  private hasOthers = false;

  constructor(state: Refusal | null) {
    this.state = state;
  }

  get isRefusing(): boolean {
    return (this.state?.since ?? null) !== null;
  }

  get areEnough(): boolean {
    return this.row >= REFUSALS && this.hasOthers;
  }

  denied(message: string): void {
    this.row += 1;
    this.message ??= message;
    this.hasOthers ||= message !== this.message;
  }

  /** Starts a period of refusing everything: all refused since `from` is sent again after a success. */
  begin(now: number, from: number): void {
    // Deliveries owed from an earlier period stay owed.
    this.state = { since: now, from: Math.min(from, this.state?.from ?? from), takenAt: null };
  }

  /** Corrects the time of its last success, found later. */
  correct(from: number): boolean {
    if (!this.state) return false;
    this.state = { ...this.state, from };
    return true;
  }

  /** Another answer: it refuses only some messages. */
  answered(): void {
    this.row = 0;
    this.message = null;
    this.hasOthers = false;
    if (this.state?.takenAt === null) this.state = { ...this.state, since: null };
  }

  /** A success: all it refused is sent again. */
  took(now: number): void {
    this.takenAt = now;
    if (this.row > 0) this.answered();
    if (this.state?.takenAt === null) this.state = { ...this.state, since: null, takenAt: now };
  }
}
