import type { Clock } from '../kernel/clock.ts';
import { type ErrorCode, RollcallError } from '../kernel/errors.ts';

/** Milliseconds between two tries after a failed write. */
const TRY_EVERY = 1_000;
/** Failures of the store itself. It refuses a call for other reasons. */
const FAILURES: ReadonlySet<ErrorCode> = new Set([
  ...(['store_full', 'store_failed', 'store_busy', 'store_read_only', 'store_damaged', 'store_missing'] as const),
]);

/** Knows if the last write succeeded. After a failed one it tries a write of its own until one succeeds. */
export class LastWrite {
  private failure: RollcallError | null = null;
  private readonly clock: Pick<Clock, 'after'>;
  private readonly attempt: () => Promise<unknown>;
  private cancel = () => {};
  private isClosed = false;

  constructor(clock: Pick<Clock, 'after'>, attempt: () => Promise<unknown>) {
    this.clock = clock;
    this.attempt = attempt;
  }

  /** @param isProof - false for a write so small that it may succeed where others fail */
  of<T>(work: Promise<T>, isProof = true): Promise<T> {
    work.then(
      () => isProof && this.clear(),
      (error) => this.note(error),
    );
    return work;
  }

  /** @throws RollcallError the failure of the last write */
  check(): void {
    if (this.failure !== null) throw this.failure;
  }

  close(): void {
    this.isClosed = true;
    this.cancel();
  }

  private clear(): void {
    this.failure = null;
    this.cancel();
  }

  private note(error: unknown): void {
    if (!(error instanceof RollcallError) || !FAILURES.has(error.code)) return;
    const isFirst = this.failure === null;
    this.failure = error;
    if (isFirst) this.tryLater();
  }

  private tryLater(): void {
    if (this.failure === null || this.isClosed) return;
    this.cancel = this.clock.after(TRY_EVERY, () => {
      const goOn = () => this.tryLater();
      void this.of(this.attempt()).then(goOn, goOn);
    });
  }
}
