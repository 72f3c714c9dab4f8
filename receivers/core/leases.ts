import type { Log, ReceiverClock } from '../options.ts';
import type { ReceiverStore } from '../store.ts';
import { attempt } from './after.ts';
import { Linked, type LinkedList } from './linked.ts';
import * as reply from './reply.ts';
import type { ReportFailure } from './report.ts';
import type { OpenRequest } from './request.ts';

interface Parts {
  /** All requests being handled. */
  readonly open: LinkedList<HeldRequest>;
  readonly store: ReceiverStore;
  readonly clock: ReceiverClock;
  /** Milliseconds after which a handler is given up. */
  readonly stuckAfter: number;
  readonly report: ReportFailure;
}

/** A request that the store may hold for a handler. */
export class HeldRequest extends Linked {
  request: OpenRequest;
  readonly log: Log;
  /** Start of its handler, in milliseconds since 1970. */
  since: number | undefined;
  givenUp: ((held: never) => void) | undefined;
  isGivenUp = false;
  hasEnded = false;

  constructor(request: OpenRequest, log: Log) {
    super();
    this.request = request;
    this.log = log;
  }
}

/** Milliseconds after which an overdue timer counts as lost. */
const LATE = 1_000;

/** Renews the leases of requests while their handlers run, so that they expire only if the process crashes. */
export class HandlerLeases {
  readonly #parts: Parts;
  readonly #interval: number;
  // Made at the first request: Cloudflare's runtime refuses random values before that.
  #process: string | undefined;
  #holders = 0;
  #disarm: (() => void) | undefined;
  /** Due time of the next renewal, in milliseconds since 1970. */
  #due = Number.POSITIVE_INFINITY;

  constructor(parts: Parts) {
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
  hold<H extends HeldRequest>(held: H, givenUp: (held: H) => void): void {
    held.since = this.#parts.clock.now();
    held.givenUp = givenUp;
    this.#arm(held.since);
  }

  /** Call when the handler has returned; false when it has been given up. */
  end(held: HeldRequest): boolean {
    held.hasEnded = true;
    return !held.isGivenUp;
  }

  /** Renews now if the timer was lost: some platforms end a timer with the request that set it. */
  catchUp(now: number): void {
    if (now < this.#due + LATE) return;
    this.#disarm?.();
    this.#look();
  }

  /** Holds a request while its handler runs. Resolves to the handler's answer. */
  keep(request: OpenRequest, work: Promise<reply.Reply>, log: Log): Promise<reply.Reply> {
    const { open } = this.#parts;
    return new Promise((resolve, reject) => {
      const held = new HeldRequest(request, log);
      open.add(held);
      this.hold(held, () => {
        open.delete(held);
        resolve(reply.failed);
      });
      const ended = () => {
        this.end(held);
        open.delete(held);
      };
      work.finally(ended).then(resolve, reject);
    });
  }

  close(): void {
    this.#disarm?.();
    for (const each of this.#parts.open) each.hasEnded = true;
  }

  #arm(now: number): void {
    if (this.#disarm !== undefined) return;
    this.#due = now + this.#interval;
    this.#disarm = this.#parts.clock.after(this.#interval, () => this.#look(), { background: true });
  }

  #look(): void {
    const { open, clock, stuckAfter } = this.#parts;
    this.#disarm = undefined;
    this.#due = Number.POSITIVE_INFINITY;
    const now = clock.now();
    for (const each of [...open]) {
      if (each.since === undefined || each.hasEnded) continue;
      if (now - each.since < stuckAfter) this.#renew(each);
      else this.#giveUp(each);
    }
    if ([...open].some(({ since }) => since !== undefined)) this.#arm(now);
  }

  #renew(each: HeldRequest): void {
    const { store, report } = this.#parts;
    const { request, log } = each;
    const { opening } = request;
    if (opening === undefined) return;
    const failed = (error: unknown) => report(error, { stage: 'store', request }, log);
    void attempt(
      () => store.renew(opening),
      (ours) => {
        // A handler that has ended in the meantime has released its lease.
        if (ours || each.hasEnded) return;
        request.expire();
        failed(new Error('its lease ended while the handler worked: another process may handle it too'));
      },
      failed,
    );
  }

  #giveUp(each: HeldRequest): void {
    const { stuckAfter, report } = this.#parts;
    const { request, log } = each;
    each.isGivenUp = true;
    each.hasEnded = true;
    request.expire();
    const error = new Error(`the handler has not returned for ${stuckAfter} ms: it is given up`);
    report(error, { stage: 'handler', late: true, gaveUp: true, request }, log);
    each.givenUp?.(each as never);
  }
}
