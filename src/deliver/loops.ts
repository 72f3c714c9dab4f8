import type { Clock } from '../kernel/clock.ts';
import type { Logger } from '../kernel/log.ts';

interface LoopOptions {
  readonly clock: Pick<Clock, 'after' | 'roughly'>;
  readonly log: Logger;
  /** Called with the name of a loop that ended too early, and the cause; null if it just returned. */
  readonly onEnd: (what: string, cause: unknown) => void;
}

/** Work that runs until it is stopped: loops, their pauses, and the signal that one of them waits for. */
export class Loops {
  isStopping = false;
  private readonly options: LoopOptions;
  private readonly running: Promise<void>[] = [];
  private readonly sleeping = new Set<() => void>();
  private wakeUp: (() => void) | null = null;

  constructor(options: LoopOptions) {
    this.options = options;
  }

  /** Starts a loop. Reports one that ends too early. */
  run(what: string, loop: () => Promise<void>): void {
    const { onEnd } = this.options;
    const over = loop().then(
      () => {
        if (!this.isStopping) onEnd(what, null);
      },
      (error) => onEnd(what, error),
    );
    this.running.push(over);
  }

  /** Starts a loop that works, then pauses. Failed work is repeated after the pause. */
  every(what: string, interval: () => number, work: () => Promise<void>): void {
    this.run(what, async () => {
      while (!this.isStopping) {
        await work().catch((error) => this.options.log.warn({ err: error }, 'The store did not answer; retrying'));
        await this.sleep(interval(), 'roughly');
      }
    });
  }

  /** Ends early on `stop`. */
  sleep(ms: number, timer: 'after' | 'roughly' = 'after'): Promise<void> {
    if (this.isStopping) return Promise.resolve();
    return new Promise((resolve) => {
      const end = () => {
        this.sleeping.delete(end);
        cancel();
        resolve();
      };
      const cancel = this.options.clock[timer](ms, end);
      this.sleeping.add(end);
    });
  }

  /** Waits for `signal` or `stop`. */
  awaitSignal(): Promise<void> {
    return new Promise((resolve) => {
      this.wakeUp = resolve;
      if (this.isStopping) resolve();
    });
  }

  signal(): void {
    this.wakeUp?.();
    this.wakeUp = null;
  }

  /** Makes all loops end after their current work. */
  stop(): void {
    this.isStopping = true;
    this.signal();
    for (const end of [...this.sleeping]) end();
  }

  async ended(): Promise<void> {
    await Promise.all(this.running);
  }
}
