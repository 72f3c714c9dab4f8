import { attempt } from './after.ts';
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

interface Held {
  readonly request: OpenRequest;
  readonly since: number;
  readonly log: Log;
  readonly giveUp: (answer: reply.Reply) => void;
}

/** Holds what handlers work on, for as long as they do: the store's lease is for processes that crash. */
export interface Leases {
  /** Names whoever handles one request. */
  newHolder(): string;
  /** The outcome of a handler; one that never returns is given up, so that others get their turn. */
  keep(request: OpenRequest, work: Promise<reply.Reply>, log: Log): Promise<reply.Reply>;
  close(): void;
}

export function createLeases({ store, clock, stuckAfter, report }: Parts): Leases {
  const process = crypto.randomUUID();
  const interval = Math.min(store.lease / 3, stuckAfter);
  const held = new Set<Held>();
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
        if (ours || !held.has(each)) return;
        request.expire();
        failed(new Error('its lease ended while the handler worked: another process may handle it too'));
      },
      failed,
    );
  }

  function giveUp({ request, log, giveUp }: Held): void {
    request.expire();
    const error = new Error(`the handler has not returned for ${stuckAfter} ms: it is given up`);
    report(error, { stage: 'handler', late: true, gaveUp: true, request }, log);
    giveUp(reply.failed);
  }

  function look(): void {
    disarm = undefined;
    const now = clock.now();
    for (const each of held) {
      if (now - each.since < stuckAfter) renew(each);
      else {
        held.delete(each);
        giveUp(each);
      }
    }
    arm();
  }

  function arm(): void {
    if (held.size > 0) disarm ??= clock.after(interval, look, { background: true });
  }

  return {
    newHolder() {
      holders += 1;
      return `${process}-${holders}`;
    },
    keep: (request, work, log) =>
      new Promise((resolve, reject) => {
        const entry = { request, since: clock.now(), log, giveUp: resolve };
        held.add(entry);
        arm();
        work.then(
          (answer) => {
            held.delete(entry);
            resolve(answer);
          },
          (error) => {
            held.delete(entry);
            reject(error);
          },
        );
      }),
    close() {
      disarm?.();
      held.clear();
    },
  };
}
