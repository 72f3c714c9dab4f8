import { attempt } from './after.ts';
import { Linked, LinkedList } from './linked.ts';
import type { Log, ReceiverClock } from './options.ts';
import * as reply from './reply.ts';
import type { Report } from './report.ts';
import type { OpenRequest } from './request.ts';
import type { ReceiverStore } from './store.ts';

interface Parts {
  readonly store: ReceiverStore;
  readonly clock: ReceiverClock;
  /** Milliseconds after which a handler is taken to never return. */
  readonly stuckAfter: number;
  readonly report: Report;
}

class Held extends Linked {
  readonly request: OpenRequest;
  readonly since: number;
  readonly log: Log;
  readonly giveUp: () => void;
  isGivenUp = false;
  hasEnded = false;

  constructor(request: OpenRequest, since: number, log: Log, giveUp: () => void) {
    super();
    this.request = request;
    this.since = since;
    this.log = log;
    this.giveUp = giveUp;
  }
}

/** Holds what handlers work on, for as long as they do: the store's lease is for processes that crash. */
export interface Leases {
  /** Names whoever handles one request. */
  newHolder(): string;
  /** Holds a request until its end. A handler that never returns is given up, so that others get their turn. */
  hold(request: OpenRequest, giveUp: () => void, log: Log): Held;
  /** The handler has returned; false when it has been given up. */
  end(held: Held): boolean;
  /** The outcome of a handler, whose request is held meanwhile. */
  keep(request: OpenRequest, work: Promise<reply.Reply>, log: Log): Promise<reply.Reply>;
  close(): void;
}

export function createLeases({ store, clock, stuckAfter, report }: Parts): Leases {
  const process = crypto.randomUUID();
  const interval = Math.min(store.lease / 3, stuckAfter);
  const held = new LinkedList<Held>();
  let holders = 0;
  let disarm: (() => void) | undefined;

  function renew(each: Held): void {
    const { request, log } = each;
    const { opening } = request;
    if (opening === undefined) return;
    const failed = (error: unknown) => report(error, { stage: 'store', request }, log);
    void attempt(
      () => store.renew(opening),
      (ours) => {
        // What has ended meanwhile has given its lease back.
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
    request.expire();
    const error = new Error(`the handler has not returned for ${stuckAfter} ms: it is given up`);
    report(error, { stage: 'handler', late: true, gaveUp: true, request }, log);
    each.giveUp();
  }

  function look(): void {
    disarm = undefined;
    const now = clock.now();
    for (const each of [...held]) {
      if (now - each.since < stuckAfter) renew(each);
      else {
        end(each);
        giveUp(each);
      }
    }
    arm();
  }

  function arm(): void {
    if (!held.isEmpty) disarm ??= clock.after(interval, look, { background: true });
  }

  function hold(request: OpenRequest, giveUp: () => void, log: Log): Held {
    const entry = new Held(request, clock.now(), log, giveUp);
    held.add(entry);
    arm();
    return entry;
  }

  function end(entry: Held): boolean {
    entry.hasEnded = true;
    held.delete(entry);
    return !entry.isGivenUp;
  }

  return {
    newHolder() {
      holders += 1;
      return `${process}-${holders}`;
    },
    hold,
    end,
    keep: (request, work, log) =>
      new Promise((resolve, reject) => {
        const entry = hold(request, () => resolve(reply.failed), log);
        work.finally(() => end(entry)).then(resolve, reject);
      }),
    close() {
      disarm?.();
      for (const entry of [...held]) end(entry);
    },
  };
}
