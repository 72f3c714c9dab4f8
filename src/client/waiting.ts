import { type ClientClock, deadline } from './clock.ts';
import type { BatchSender } from './sender.ts';

/** Polling interval, in milliseconds, of a call that must not wait for other requests of its host. */
const LOOK_EVERY = 25;

interface Waiter {
  /** Done once this many messages have left the queue. */
  upTo: number;
  done: () => void;
}

/** Calls of `flush` and `close` that wait until the messages queued before them are settled. */
export class WaitingCalls {
  readonly #clock: ClientClock;
  #waiters: Waiter[] = [];
  #looking = 0;

  constructor(clock: ClientClock) {
    this.#clock = clock;
  }

  /** True while a waiting call does the sending. */
  get isLooking(): boolean {
    return this.#looking > 0;
  }

  /** Waits until `upTo` messages have left the queue, for `timeout` milliseconds at most. */
  until(upTo: number, timeout: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = deadline(this.#clock, timeout, () => waiter.done(), true);
      const waiter = {
        upTo,
        done: () => {
          cancel();
          this.#waiters = this.#waiters.filter((other) => other !== waiter);
          resolve();
        },
      };
      this.#waiters.push(waiter);
    });
  }

  /**
   * Like `until`, for platforms whose timers and requests end with the host's request that made them. What another
   * request has started may never finish, so each call sends the batches itself, one after the other.
   */
  async sending(sender: BatchSender, isSettled: () => boolean, timeout: number): Promise<void> {
    const end = this.#clock.now() + timeout;
    this.#looking++;
    try {
      while (!isSettled() && this.#clock.now() < end && !sender.isStopped) {
        sender.takeOver();
        await new Promise<void>((resolve) => this.#clock.after(LOOK_EVERY, resolve, true));
      }
    } finally {
      this.#looking--;
    }
  }

  /** @param removed messages that have left the queue since the start */
  settled(removed: number): void {
    for (const { done } of this.#waiters.filter(({ upTo }) => upTo <= removed)) done();
  }
}
