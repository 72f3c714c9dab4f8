import { type ClientClock, deadline } from './clock.ts';
import type { BatchSender } from './sender.ts';

/** Milliseconds between two looks of a call that must not wait for other requests of its host. */
const LOOK_EVERY = 25;

interface Waiter {
  /** Done once so many messages have left the queue. */
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

  /** Whether a call waits that sends by itself. */
  get isLooking(): boolean {
    return this.#looking > 0;
  }

  /** Waits for `timeout` milliseconds at most. */
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
   * As `until`, where timers and requests end with the request of the host that made them. Nothing that another one has
   * begun can be relied on, so each call sends with its own, one batch after the other.
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

  /** So many messages have left the queue since the start. */
  settled(removed: number): void {
    for (const { done } of this.#waiters.filter(({ upTo }) => upTo <= removed)) done();
  }
}
