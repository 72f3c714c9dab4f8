import type { RollcallError } from '../../src/kernel/errors.ts';
import type { Run, Store } from '../../src/store/port.ts';
import type { Log, RunAlert, Subject } from './run-context.ts';

/** No failures of a run. */
const QUIET = new Set(['stopping', 'run_in_progress', 'unknown_run', 'older_configuration']);

/** Says in the log, and to people, what became of a run that they should know of. */
export interface Alerts {
  send(alert: RunAlert): Promise<void>;
  held(run: Run): Promise<void>;
  /** A try again that fails as the one before did is only logged. */
  failed(subject: Subject, error: RollcallError, isRetry: boolean): Promise<void>;
}

interface AlertsOptions {
  readonly store: Pick<Store, 'runs'>;
  readonly log: Log;
  /** Its errors are logged. */
  readonly notify?: ((alert: RunAlert) => void | Promise<void>) | undefined;
}

export function createAlerts({ store, log, notify }: AlertsOptions): Alerts {
  function write({ event, key, run, code, message }: RunAlert): void {
    const fields = { event: `sync_${event}`, key, run: run?.id, code };
    if (event === 'failed') log.error(fields, message);
    else log.warn(fields, message);
  }

  async function send(alert: RunAlert): Promise<void> {
    write(alert);
    try {
      await notify?.(alert);
    } catch (error) {
      log.error({ err: error, key: alert.key }, 'The alert could not be sent');
    }
  }

  return {
    send,
    held: (run) => send({ event: 'held', key: run.key, run, code: 'run_held', message: run.reason ?? 'held' }),
    async failed({ key }, { code, message }, isRetry) {
      if (QUIET.has(code)) return;
      const [last, before] = await store.runs({ key, limit: 2 }).catch(() => []);
      const run = last?.code === code ? last : null;
      const alert: RunAlert = { event: 'failed', key, run, code, message };
      if (isRetry && before?.code === code) write(alert);
      else await send(alert);
    },
  };
}
