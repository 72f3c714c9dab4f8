import type { Clock } from '../kernel/clock.ts';
import type { NoticeConfirmation, Records, Settlement } from '../store/port.ts';

interface ConfirmationParts {
  readonly store: Pick<Records, 'confirmNotices'>;
  readonly clock: Pick<Clock, 'now' | 'after'>;
  readonly log: { warn(details: object, message: string): void };
}

/** The message id of a notice of `Regulations`: the request and the user's index in it. */
const NOTICE = /^([0-9a-f-]{36})-(\d+)$/;
const TRY_AGAIN = 5_000;
/** Confirmations written in one transaction, and kept in memory while the store is not available. */
const STEP = 1_000;
const KEPT = 100_000;

/** Records which destinations accepted which deletion notices. Costs every other delivery one comparison. */
export class Confirmations {
  private readonly parts: ConfirmationParts;
  private waiting: NoticeConfirmation[] = [];
  private writing: Promise<void> | null = null;
  private cancel = () => {};

  constructor(parts: ConfirmationParts) {
    this.parts = parts;
  }

  settled({ claim, verdict }: Settlement): void {
    if (claim.type !== 'delete' || verdict.kind !== 'delivered') return;
    const [, regulation, place] = NOTICE.exec(claim.messageId) ?? [];
    if (regulation === undefined || this.waiting.length >= KEPT) return;
    const { destination, source } = claim;
    this.waiting.push({ regulation, destination, notice: `${place} ${source}`, at: this.parts.clock.now() });
    void this.flush();
  }

  /** Resolves once everything is written, or the store has failed. */
  flush(): Promise<void> {
    this.writing ??= this.write().finally(() => {
      this.writing = null;
    });
    return this.writing;
  }

  private async write(): Promise<void> {
    this.cancel();
    const { store, clock, log } = this.parts;
    while (this.waiting.length > 0) {
      const part = this.waiting.slice(0, STEP);
      try {
        await store.confirmNotices(part);
      } catch (error) {
        log.warn({ err: error }, 'Could not store confirmations of deletions; retrying');
        this.cancel = clock.after(TRY_AGAIN, () => void this.flush());
        return;
      }
      this.waiting = this.waiting.slice(part.length);
    }
  }
}
