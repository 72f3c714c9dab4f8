import type { Clock } from '../kernel/clock.ts';

/** Limits that a connection was cut or refused for: connections of an address, a source, admins or all; and the others. */
export const CUT_REASONS = ['address', 'source', 'admin', 'all', 'bodies', 'unread', 'pipelining', 'requests'] as const;
export type CutReason = (typeof CUT_REASONS)[number];

const LOGGED_EVERY = 10_000;

interface Options {
  readonly clock: Pick<Clock, 'after'>;
  readonly log: { warn(about: object, message: string): void };
  readonly onRefused: (reason: CutReason) => void;
}

/** Counts what was cut or refused. One log line covers all of ten seconds: they must not fill the disk. */
export class CutLog {
  private readonly options: Options;
  private readonly unlogged = new Map<CutReason, number>();
  private cancel = () => {};

  constructor(options: Options) {
    this.options = options;
  }

  count(reason: CutReason): void {
    this.options.onRefused(reason);
    if (this.unlogged.size === 0) this.cancel = this.options.clock.after(LOGGED_EVERY, () => this.flush());
    this.unlogged.set(reason, (this.unlogged.get(reason) ?? 0) + 1);
  }

  flush(): void {
    this.cancel();
    if (this.unlogged.size === 0) return;
    this.options.log.warn({ refused: Object.fromEntries(this.unlogged) }, 'Cut connections that exceed a limit');
    this.unlogged.clear();
  }
}
