import { RollcallError } from '../../kernel/errors.ts';

/**
 * Run `write`, and report failures as errors of usage: a person has chosen the path.
 *
 * @throws RollcallError `bad_usage` if the system refuses
 */
export function writing<T>(write: () => T): T {
  try {
    return write();
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error;
    throw new RollcallError('bad_usage', `Nothing can be written there: ${error.message}.`, { cause: error });
  }
}
