import { callHost } from './call-host.ts';

/** The reason why messages will not arrive. */
export type LossReason =
  /** The message was invalid. */
  | 'invalid'
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
  /** Number of messages. */
  count: number;
  /** The messages as they would have been sent, parsed when this is read; empty if they can no longer be read. */
  readonly messages: Record<string, unknown>[];
  /** The cause, for people. */
  message: string;
  /** HTTP status of the last answer, if there was one. */
  status?: number;
  /** The service's error code, or that of an invalid message. */
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

/** Counts messages by result and reports every loss to the host. */
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

  /** @param messages called only if the listener reads the messages, then or later: a million take seconds */
  lost(loss: LossFacts, messages: () => Record<string, unknown>[]): void {
    this.#open[loss.outcome] += loss.count;
    if (this.#onLoss) this.#tell(this.#onLoss, loss, messages);
    else if (!this.#warned.has(loss.reason)) {
      this.#warned.add(loss.reason);
      const { count, outcome, reason, message } = loss;
      this.#warn(
        `${count} ${outcome} (${reason}): ${message.replace(/\.$/, '')}. Set onLoss to be notified.`,
        reason === 'exit',
      );
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
