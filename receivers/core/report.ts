import type { Failure, Handlers, Log } from '../options.ts';

/** Logs a failure and passes it to `on.error`. Failures of either are contained. */
export type ReportFailure = (error: unknown, failure: Partial<Failure> & Pick<Failure, 'stage'>, log: Log) => void;

/** A failure of the host's log must not fail the answer. */
function logSafely(log: Log, fields: Record<string, unknown>, message: string): void {
  try {
    log.error(fields, message);
  } catch {
    // There is nowhere left to report it.
  }
}

export function createReport(on: Handlers): ReportFailure {
  async function inform(error: unknown, failure: Failure, log: Log): Promise<void> {
    try {
      await on.error?.(error, failure);
    } catch (err) {
      logSafely(log, { err, stage: 'error' }, 'the error handler of the webhook receiver failed');
    }
  }

  return (error, failure, log) => {
    logSafely(log, { err: error, stage: failure.stage, late: failure.late ?? false }, 'webhook failed');
    void inform(error, { late: false, gaveUp: false, ...failure }, log);
  };
}
