import type { Clock } from '../kernel/clock.ts';
import type { ErrorCode } from '../kernel/errors.ts';
import type { Logger } from '../kernel/log.ts';

export interface DiscardSample {
  readonly source: string;
  readonly code: string;
  readonly at: number;
  readonly message: string;
}

interface DiscardParts {
  readonly clock: Clock;
  readonly log: Logger;
  /** Stores samples, in the order of time. */
  readonly save: (samples: readonly DiscardSample[]) => Promise<void>;
  readonly onDiscard: (source: string, code: ErrorCode) => void;
  /** Most samples to keep of each source. */
  readonly kept: number;
}

/** Stands for the source of requests without a known key: clients must not choose the names of counters. */
export const NOBODY = '';

/** Milliseconds from a discard to its sample on disk, and between two log lines about the same. */
const SAVE_AFTER = 1_000;
const LOG_EVERY = 60_000;

/**
 * Makes lost messages visible: no library reads why a message was rejected. Every discard is counted. The newest of each
 * source are kept as samples, and one log line covers many.
 */
export class Discards {
  private readonly parts: DiscardParts;
  private readonly samples = new Map<string, DiscardSample[]>();
  private readonly unlogged = new Map<string, { source: string; code: ErrorCode; count: number; message: string }>();
  private readonly loggedAt = new Map<string, number>();
  private cancel: (() => void) | null = null;
  private isLogDue = false;
  private saving: Promise<void> = Promise.resolve();

  constructor(parts: DiscardParts) {
    this.parts = parts;
  }

  /** @param message - its start, as it may be shown; null if there is nothing to show */
  add(source: string, code: ErrorCode, message: string | null): void {
    const { clock, onDiscard, kept } = this.parts;
    onDiscard(source, code);
    const topic = `${code} ${source}`;
    const unlogged = this.unlogged.get(topic);
    if (unlogged) unlogged.count += 1;
    else this.unlogged.set(topic, { source, code, count: 1, message: message ?? '' });
    if (message !== null) {
      const samples = this.samples.get(source) ?? [];
      samples.push({ source, code, at: clock.now(), message });
      if (samples.length > kept) samples.shift();
      this.samples.set(source, samples);
    }
    this.cancel ??= clock.after(SAVE_AFTER, () => void this.flush());
  }

  /** Resolves once all samples so far are kept. */
  flush(): Promise<void> {
    this.cancel?.();
    this.cancel = null;
    this.logSome();
    const samples = [...this.samples.values()].flat();
    this.samples.clear();
    if (samples.length > 0) this.saving = this.saving.then(() => this.save(samples));
    return this.saving;
  }

  private async save(samples: readonly DiscardSample[]): Promise<void> {
    try {
      await this.parts.save(samples);
    } catch (err) {
      this.parts.log.warn({ err }, 'Could not store samples of discarded messages');
    }
  }

  private logSome(): void {
    const { clock, log } = this.parts;
    const now = clock.monotonic();
    for (const [topic, { source, code, count, message }] of this.unlogged) {
      if (now - (this.loggedAt.get(topic) ?? Number.NEGATIVE_INFINITY) < LOG_EVERY) continue;
      this.loggedAt.set(topic, now);
      this.unlogged.delete(topic);
      const of = source === NOBODY ? {} : { source };
      log.warn({ stage: 'collect', ...of, code, count, ...(message && { sample: message }) }, 'discarded');
    }
    if (this.unlogged.size === 0 || this.isLogDue) return;
    this.isLogDue = true;
    clock.after(LOG_EVERY, () => {
      this.isLogDue = false;
      this.logSome();
    });
  }
}
