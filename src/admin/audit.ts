import type { SyncReport } from '../../jobs/index.ts';
import { RollcallError } from '../kernel/errors.ts';
import type { Logger } from '../kernel/log.ts';
import type { Records } from '../store/port.ts';

/** An action of a caller, for the audit log. Never names users, who may have to be forgotten. */
interface AuditDeed {
  /** A token's name, `local`, or `cli:USER`. */
  readonly who: string;
  readonly action: string;
  readonly target: string | null;
}

export const syncOutcome = ({ error, runs }: SyncReport): string =>
  error?.code ?? (runs.at(-1)?.state === 'held' ? 'run_held' : 'done');

/** Records what people do before it is done, and its outcome afterwards. */
export class Audit {
  private readonly store: Pick<Records, 'beginAudit' | 'endAudit'>;
  private readonly now: () => number;
  private readonly log: Logger;

  constructor(store: Pick<Records, 'beginAudit' | 'endAudit'>, now: () => number, log: Logger) {
    this.store = store;
    this.now = now;
    this.log = log;
  }

  /**
   * Do the work, unless the audit log can't be written. The outcome may be known later than the result, for an order that goes on.
   */
  async during<T>(
    deed: AuditDeed,
    work: () => Promise<T>,
    outcomeOf: (result: T) => string | Promise<string> = () => 'done',
  ): Promise<T> {
    const id = await this.store.beginAudit({ ...deed, at: this.now() });
    this.log.info({ event: 'audit', ...deed }, `${deed.who}: ${deed.action}${deed.target ? ` ${deed.target}` : ''}`);
    try {
      const result = await work();
      const outcome = outcomeOf(result);
      if (typeof outcome === 'string') await this.end(id, outcome);
      else void outcome.then((late) => this.end(id, late));
      return result;
    } catch (error) {
      await this.end(id, error instanceof RollcallError ? error.code : 'internal_error');
      throw error;
    }
  }

  /** Failures are only logged: the action is done. */
  private async end(id: number, outcome: string): Promise<void> {
    await this.store
      .endAudit(id, outcome)
      .catch((error) => this.log.warn({ err: error, outcome }, 'The outcome could not be written to the audit log'));
  }
}
