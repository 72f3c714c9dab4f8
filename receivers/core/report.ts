import type { Failure, Handlers, Log } from '../options.ts';

/** Logs a failure and gives it to `on.error`, without letting either do harm. */
export type ReportFailure = (error: unknown, failure: Partial<Failure> & Pick<Failure, 'stage'>, log: Log) => void;

/** A log of the host that fails must not fail the answer. */
function logSafely(log: Log, fields: Record<string, unknown>, message: string): void {
  try {
    log.error(fields, message);
  } catch {
    // There is nowhere left to say it.
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
