import { isThenable } from './after.ts';
import type { Job } from './job.ts';
import { LinkedList } from './linked.ts';
import type { CoreParts } from './parts.ts';

/** Milliseconds after which an overdue timer counts as lost. */
const LATE = 1_000;

/** Renews the leases of requests while their handlers run, so that they expire only if the process crashes. */
export class HandlerLeases {
  /** All jobs that are not done. */
  readonly open = new LinkedList<Job>();
  readonly #parts: CoreParts;
  readonly #interval: number;
  // Made at the first request: Cloudflare's runtime refuses random values before that.
  #process: string | undefined;
  #holders = 0;
  #disarm: (() => void) | undefined;
  /** Due time of the next renewal, in milliseconds since 1970. */
  #due = Number.POSITIVE_INFINITY;

  constructor(parts: CoreParts) {
    this.#parts = parts;
    this.#interval = Math.min(parts.store.lease / 3, parts.stuckAfter);
  }

  /** Makes a holder name for one request. */
  newHolder(): string {
    this.#process ??= crypto.randomUUID();
    this.#holders += 1;
    return `${this.#process}-${this.#holders}`;
  }

  /** Holds a request until its handler returns. A handler that never does is given up, so that others get their turn. */
  hold(job: Job, givenUp: (job: Job) => void): void {
    job.since = this.#parts.clock.now();
    job.givenUp = givenUp;
    this.#arm(job.since);
  }

  /** Call when the handler has returned; false when it has been given up. */
  end(job: Job): boolean {
    job.hasEnded = true;
    return !job.isGivenUp;
  }

  /** Renews now if the timer was lost: some platforms end a timer with the request that set it. */
  catchUp(now: number): void {
    if (now < this.#due + LATE) return;
    this.#disarm?.();
    this.#look();
  }

  close(): void {
    this.#disarm?.();
    for (const each of this.open) each.hasEnded = true;
  }

  #arm(now: number): void {
    if (this.#disarm !== undefined) return;
    this.#due = now + this.#interval;
    this.#disarm = this.#parts.clock.after(this.#interval, () => this.#look(), { background: true });
  }

  #look(): void {
    const { clock, stuckAfter } = this.#parts;
    this.#disarm = undefined;
    this.#due = Number.POSITIVE_INFINITY;
    const now = clock.now();
    for (const each of [...this.open]) {
      if (each.since === undefined || each.hasEnded) continue;
      if (now - each.since < stuckAfter) void this.#renew(each);
      else this.#giveUp(each);
    }
    if ([...this.open].some(({ since }) => since !== undefined)) this.#arm(now);
  }

  async #renew(job: Job): Promise<void> {
    const { store, report } = this.#parts;
    const { request, log } = job;
    if (request.opening === undefined) return;
    try {
      const given = store.renew(request.opening);
      const isOurs = isThenable(given) ? await given : given;
      // A handler that has ended in the meantime has released its lease.
      if (isOurs || job.hasEnded) return;
      request.expire();
      throw new Error('its lease ended while the handler worked: another process may handle it too');
    } catch (error) {
      report(error, { stage: 'store', request }, log);
    }
  }

  #giveUp(job: Job): void {
    const { stuckAfter, report } = this.#parts;
    const { request, log } = job;
    job.isGivenUp = true;
    job.hasEnded = true;
    request.expire();
    const error = new Error(`the handler has not returned for ${stuckAfter} ms: it is given up`);
    report(error, { stage: 'handler', late: true, gaveUp: true, request }, log);
    job.givenUp?.(job);
  }
}
