import { attempt } from './after.ts';
import { Linked, type LinkedList } from './linked.ts';
import type { Log, ReceiverClock } from './options.ts';
import * as reply from './reply.ts';
import type { Report } from './report.ts';
import type { OpenRequest } from './request.ts';
import type { ReceiverStore } from './store.ts';

interface Parts {
  /** Everything that is at work, for as long as it is. */
  readonly open: LinkedList<Held>;
  readonly store: ReceiverStore;
  readonly clock: ReceiverClock;
  /** Milliseconds after which a handler is taken to never return. */
  readonly stuckAfter: number;
  readonly report: Report;
}

/** A request that the store may hold for a handler. */
export class Held extends Linked {
  request: OpenRequest;
  readonly log: Log;
  /** When its handler began, in milliseconds since 1970. */
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

/** Milliseconds after which a timer that has not called back is taken for lost. */
const LATE = 1_000;

/** Holds what handlers work on, for as long as they do: the store's lease is for processes that crash. */
export interface Leases {
  /** Names whoever handles one request. */
  newHolder(): string;
  /** Holds a request until its end. A handler that never returns is given up, so that others get their turn. */
  hold<H extends Held>(held: H, givenUp: (held: H) => void): void;
  /** The handler has returned; false when it has been given up. */
  end(held: Held): boolean;
  /** Looks at once, if the timer for it is lost: some platforms end a timer with the request that set it. */
  catchUp(now: number): void;
  /** The outcome of a handler, whose request is held meanwhile. */
  keep(request: OpenRequest, work: Promise<reply.Reply>, log: Log): Promise<reply.Reply>;
  close(): void;
}

export function createLeases({ open, store, clock, stuckAfter, report }: Parts): Leases {
  // Made at the first request: Cloudflare's runtime refuses random values before.
  let process: string | undefined;
  const interval = Math.min(store.lease / 3, stuckAfter);
  let holders = 0;
  let disarm: (() => void) | undefined;
  /** When the next look is due, in milliseconds since 1970. */
  let due = Number.POSITIVE_INFINITY;

  function renew(each: Held): void {
    const { request, log } = each;
    const { opening } = request;
    if (opening === undefined) return;
    const failed = (error: unknown) => report(error, { stage: 'store', request }, log);
    void attempt(
      () => store.renew(opening),
      (ours) => {
        // A handler that has ended meanwhile has given its lease back.
        if (ours || each.hasEnded) return;
        request.expire();
        failed(new Error('its lease ended while the handler worked: another process may handle it too'));
      },
      failed,
    );
  }

  function giveUp(each: Held): void {
    const { request, log } = each;
    each.isGivenUp = true;
    each.hasEnded = true;
    request.expire();
    const error = new Error(`the handler has not returned for ${stuckAfter} ms: it is given up`);
    report(error, { stage: 'handler', late: true, gaveUp: true, request }, log);
    each.givenUp?.(each as never);
  }

  function look(): void {
    disarm = undefined;
    due = Number.POSITIVE_INFINITY;
    const now = clock.now();
    for (const each of [...open]) {
      if (each.since === undefined || each.hasEnded) continue;
      if (now - each.since < stuckAfter) renew(each);
      else giveUp(each);
    }
    if ([...open].some(({ since }) => since !== undefined)) arm(now);
  }

  function arm(now: number): void {
    if (disarm !== undefined) return;
    due = now + interval;
    disarm = clock.after(interval, look, { background: true });
  }

  function hold<H extends Held>(held: H, givenUp: (held: H) => void): void {
    held.since = clock.now();
    held.givenUp = givenUp;
    arm(held.since);
  }

  function end(held: Held): boolean {
    held.hasEnded = true;
    return !held.isGivenUp;
  }

  return {
    newHolder() {
      process ??= crypto.randomUUID();
      holders += 1;
      return `${process}-${holders}`;
    },
    hold,
    end,
    catchUp(now) {
      if (now < due + LATE) return;
      disarm?.();
      look();
    },
    keep: (request, work, log) =>
      new Promise((resolve, reject) => {
        const held = new Held(request, log);
        open.add(held);
        hold(held, () => {
          open.delete(held);
          resolve(reply.failed);
        });
        const ended = () => {
          end(held);
          open.delete(held);
        };
        work.finally(ended).then(resolve, reject);
      }),
    close() {
      disarm?.();
      for (const each of open) each.hasEnded = true;
    },
  };
}
