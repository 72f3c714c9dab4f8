import { RollcallError } from '../src/kernel/errors.ts';
import { withoutData } from './engines/data-in-errors.ts';
import { codeOf } from './readers/errors.ts';

/** Treats errors that are not ours as failures of the engine. The cause would show the data that the text does not. */
export function asRollcallError(error: unknown): RollcallError {
  if (error instanceof RollcallError) return error;
  // A module may come with another copy of the class.
  const code = codeOf(error) ?? 'engine_failed';
  return new RollcallError(code, withoutData(error instanceof Error ? error.message : String(error), ''));
}

/** The error of a run. If the process is stopping, it says what happens to the run. */
export function endOf(error: unknown, fate: string): unknown {
  if (!(error instanceof RollcallError && error.code === 'stopping')) return error;
  return new RollcallError('stopping', `Rollcall stopped before the run ${fate}.`, { cause: error });
}

/** Makes the message begin with the audience's key. */
export function naming(key: string, error: RollcallError): RollcallError {
  if (error.message.startsWith(`${key}:`) || error.message.startsWith(`${key} `)) return error;
  return new RollcallError(error.code, `${key}: ${error.message}`, { cause: error });
}
