/** Why messages will not arrive. */
export type LossReason =
  /** The queue was full at the call. */
  | 'queue_full'
  /** Called after `close`. */
  | 'closed'
  /** Not sent by the deadline of `close`. */
  | 'deadline'
  /** Not sent when the process exited. */
  | 'exit'
  /** Tried in vain for `retryFor`. */
  | 'expired'
  /** The service refused the batch. */
  | 'refused'
  /** The service refused this message of a batch. */
  | 'rejected'
  /** A crash left it incomplete in the spool. */
  | 'spool_damaged';

/** Messages that will not arrive. */
export interface Loss {
  /** `failed`: tried and refused, or given up; `dropped`: not tried any more, or never. */
  outcome: 'failed' | 'dropped';
  reason: LossReason;
  /** How many messages. */
  count: number;
  /** The messages as they would have been sent; empty where they cannot be read any more. */
  messages: Record<string, unknown>[];
  /** What happened, for people. */
  message: string;
  /** HTTP status of the last answer, if there was one. */
  status?: number;
  /** Code that the service gave. */
  code?: string;
}

/** What became of messages. */
export interface Report {
  /** Accepted by the service. */
  sent: number;
  /** Refused by the service, or tried in vain for `retryFor`. */
  failed: number;
  /** Given up: queue full, client closed, deadline over. */
  dropped: number;
}

/** Counts what became of every message, and tells the host of each that is lost. */
export class Ledger {
  readonly #onLoss: ((loss: Loss) => void) | undefined;
  readonly #warned = new Set<LossReason>();
  #open: Report = { sent: 0, failed: 0, dropped: 0 };

  constructor(onLoss: ((loss: Loss) => void) | undefined) {
    this.#onLoss = onLoss;
  }

  sent(count: number): void {
    this.#open.sent += count;
  }

  /** @param messages read only if somebody listens */
  lost(loss: Omit<Loss, 'messages'>, messages: () => Record<string, unknown>[]): void {
    this.#open[loss.outcome] += loss.count;
    if (this.#onLoss) {
      try {
        this.#onLoss({ ...loss, messages: messages() });
      } catch (error) {
        process.emitWarning(`onLoss threw: ${error}`, 'RollcallWarning');
      }
    } else if (!this.#warned.has(loss.reason)) {
      this.#warned.add(loss.reason);
      warn(`${loss.count} ${loss.outcome} (${loss.reason}): ${loss.message}. Set onLoss to hear of every one.`, loss);
    }
  }

  /** Counts since the last report; every message is in exactly one. */
  report(): Report {
    const report = this.#open;
    this.#open = { sent: 0, failed: 0, dropped: 0 };
    return report;
  }
}

function warn(text: string, { reason }: { reason: LossReason }): void {
  // A warning is printed on the next tick, and an exiting process has none.
  if (reason === 'exit') console.error(`RollcallWarning: ${text}`);
  else process.emitWarning(text, 'RollcallWarning');
}
