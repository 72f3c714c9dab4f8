import { RollcallError } from '../kernel/errors.ts';
import type { Logger } from '../kernel/log.ts';
import type { Records } from '../store/port.ts';

/** The audit log: which caller did what. It never names users, who may have to be forgotten. */
interface AuditDeed {
  /** A token's name, `local`, or `cli:USER`. */
  readonly who: string;
  readonly action: string;
  readonly target: string | null;
}

/** Writes down what people do before it is done, and what became of it after. */
export class Audit {
  private readonly store: Pick<Records, 'beginAudit' | 'endAudit'>;
  private readonly now: () => number;
  private readonly log: Logger;

  constructor(store: Pick<Records, 'beginAudit' | 'endAudit'>, now: () => number, log: Logger) {
    this.store = store;
    this.now = now;
    this.log = log;
  }

  /** Nothing is done that can't be written down. */
  async during<T>(
    deed: AuditDeed,
    work: () => Promise<T>,
    outcomeOf: (result: T) => string = () => 'done',
  ): Promise<T> {
    const id = await this.store.beginAudit({ ...deed, at: this.now() });
    this.log.info({ event: 'audit', ...deed }, `${deed.who}: ${deed.action}${deed.target ? ` ${deed.target}` : ''}`);
    try {
      const result = await work();
      await this.end(id, outcomeOf(result));
      return result;
    } catch (error) {
      await this.end(id, error instanceof RollcallError ? error.code : 'internal_error');
      throw error;
    }
  }

  /** The action is done, whether or not the store takes its outcome. */
  private async end(id: number, outcome: string): Promise<void> {
    await this.store
      .endAudit(id, outcome)
      .catch((error) => this.log.warn({ err: error, outcome }, 'The outcome could not be written to the audit log'));
  }
}
