import type { Logger } from 'pino';
import type { Clock } from './kernel/clock.ts';
import type { Settlement } from './store/port.ts';

/** Milliseconds between two summaries. */
const SUMMARY_EVERY = 60_000;
/** Most endpoints in one summary. */
const ENDPOINTS = 1_000;
/** Most dead letters of a destination that have a line of their own between two summaries. */
const LETTERS = 20;

/** Failures at one endpoint since the last summary. */
interface Failures {
  readonly destination: string;
  /** Counts by status or cause. */
  readonly causes: Map<string, number>;
  retried: number;
}

/**
 * Logs results of deliveries: a line for each dead letter as long as they are few, and a line per endpoint and minute for
 * ordinary retries. Level debug has every try. A delivery that succeeds at once costs no more than a comparison.
 */
export class DeliveryLog {
  private readonly log: Logger;
  private readonly clock: Pick<Clock, 'after'>;
  private readonly failures = new Map<string, Failures>();
  /** Dead letters of each destination since the last summary. */
  private readonly letters = new Map<string, number>();
  private cancel: (() => void) | null = null;

  constructor(log: Logger, clock: Pick<Clock, 'after'>) {
    this.log = log;
    this.clock = clock;
  }

  settled(settlement: Settlement): void {
    const { kind } = settlement.verdict;
    if (kind === 'retry') this.count(settlement);
    if (kind === 'dead' && this.countLetter(settlement) <= LETTERS) {
      this.log.warn(fieldsOf(settlement), 'dead letter');
    } else if (this.log.isLevelEnabled('debug')) {
      const said = kind === 'dead' ? 'dead letter' : kind === 'retry' ? 'will be retried' : kind;
      this.log.debug(fieldsOf(settlement), said);
    }
  }

  /** Writes all summaries, due or not. */
  flush(): void {
    this.cancel?.();
    this.cancel = null;
    for (const [endpoint, { destination, causes, retried }] of this.failures) {
      const list = [...causes].map(([cause, count]) => `${cause} ${count}`).join(', ');
      const fields = { stage: 'deliver', destination, endpoint, retried, causes: Object.fromEntries(causes) };
      this.log.info(fields, `${destination}: ${retried} will be retried (${list})`);
    }
    this.failures.clear();
    for (const [destination, letters] of this.letters) {
      const more = letters - LETTERS;
      if (more > 0) this.log.warn({ stage: 'deliver', destination, more }, `${destination}: ${more} more dead letters`);
    }
    this.letters.clear();
  }

  /** @returns dead letters of the destination since the last summary */
  private countLetter({ claim: { destination } }: Settlement): number {
    const letters = (this.letters.get(destination) ?? 0) + 1;
    this.letters.set(destination, letters);
    this.summarizeLater();
    return letters;
  }

  private count({ claim: { destination }, attempts }: Settlement): void {
    for (const { endpoint, outcome, status, error } of attempts) {
      if (outcome === 'success' || outcome === 'skipped') continue;
      if (!this.failures.has(endpoint) && this.failures.size >= ENDPOINTS) continue;
      const failures = this.failures.get(endpoint) ?? { destination, causes: new Map<string, number>(), retried: 0 };
      const cause = String(status ?? error ?? outcome);
      failures.causes.set(cause, (failures.causes.get(cause) ?? 0) + 1);
      failures.retried += 1;
      this.failures.set(endpoint, failures);
    }
    this.summarizeLater();
  }

  private summarizeLater(): void {
    this.cancel ??= this.clock.after(SUMMARY_EVERY, () => this.flush());
  }
}

function fieldsOf({ claim, verdict, attempts }: Settlement) {
  const { id, destination, source, type, messageId, tries } = claim;
  const tried = attempts.map(({ endpoint, outcome, status, error, ms }) => ({
    ...{ endpoint, outcome, status, error },
    ms: Math.round(ms),
  }));
  const { kind } = verdict;
  const reason = kind === 'dead' ? { reason: verdict.reason } : {};
  const next = kind === 'retry' ? { next: new Date(verdict.dueAt).toISOString() } : {};
  const shown = { kind, ...reason, ...next };
  return { stage: 'deliver', delivery: id, destination, source, type, messageId, tries, verdict: shown, tried };
}
