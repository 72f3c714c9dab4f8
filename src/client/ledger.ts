import { callHost } from './call-host.ts';

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
  /** Still failing after `retryFor`. */
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
  /** The messages as they would have been sent, parsed when this is read; empty where they cannot be read any more. */
  readonly messages: Record<string, unknown>[];
  /** The cause, for people. */
  message: string;
  /** HTTP status of the last answer, if there was one. */
  status?: number;
  /** Code that the service gave. */
  code?: string;
}

/** A loss without the messages. */
export type LossFacts = Omit<Loss, 'messages'>;

/** Counts of messages by their result. */
export interface Report {
  /** Accepted by the service. */
  sent: number;
  /** Refused by the service, or still failing after `retryFor`. */
  failed: number;
  /** Given up: queue full, client closed, deadline over. */
  dropped: number;
}

/** Counts what became of every message, and tells the host of each that is lost. */
export class Ledger {
  readonly #onLoss: ((loss: Loss) => void) | undefined;
  readonly #warn: (text: string, isEnding?: boolean) => void;
  readonly #warned = new Set<LossReason>();
  #open: Report = { sent: 0, failed: 0, dropped: 0 };

  constructor(onLoss: ((loss: Loss) => void) | undefined, warn: (text: string, isEnding?: boolean) => void) {
    this.#onLoss = onLoss;
    this.#warn = warn;
  }

  sent(count: number): void {
    this.#open.sent += count;
  }

  /** @param messages read only if the listener reads them, then or later: a million take seconds */
  lost(loss: LossFacts, messages: () => Record<string, unknown>[]): void {
    this.#open[loss.outcome] += loss.count;
    if (this.#onLoss) this.#tell(this.#onLoss, loss, messages);
    else if (!this.#warned.has(loss.reason)) {
      this.#warned.add(loss.reason);
      const { count, outcome, reason, message } = loss;
      this.#warn(`${count} ${outcome} (${reason}): ${message}. Set onLoss to hear of every one.`, reason === 'exit');
    }
  }

  /** Counts since the last report; every message is in exactly one. */
  report(): Report {
    const report = this.#open;
    this.#open = { sent: 0, failed: 0, dropped: 0 };
    return report;
  }

  #tell(listener: (loss: Loss) => void, loss: LossFacts, messages: () => Record<string, unknown>[]): void {
    let parsed: Record<string, unknown>[] | undefined;
    const told: Loss = {
      ...loss,
      get messages() {
        parsed ??= messages();
        return parsed;
      },
    };
    callHost(
      () => listener(told),
      (why) => this.#warn(`onLoss threw: ${why}`),
    );
  }
}
