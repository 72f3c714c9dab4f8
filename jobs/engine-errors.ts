import { RollcallError } from '../src/kernel/errors.ts';

/** Errors that are not ours come from an engine. */
export function asRollcallError(error: unknown): RollcallError {
  if (error instanceof RollcallError) return error;
  return new RollcallError('engine_failed', error instanceof Error ? error.message : String(error), { cause: error });
}

/** Why a run ended; where that is the end of the process, with what becomes of the run. */
export function endOf(error: unknown, fate: string): unknown {
  if (!(error instanceof RollcallError && error.code === 'stopping')) return error;
  return new RollcallError('stopping', `Rollcall stopped before the run ${fate}.`, { cause: error });
}

/** A message always says which audience it is about. */
export function naming(key: string, error: RollcallError): RollcallError {
  if (error.message.startsWith(`${key}:`) || error.message.startsWith(`${key} `)) return error;
  return new RollcallError(error.code, `${key}: ${error.message}`, { cause: error });
}
