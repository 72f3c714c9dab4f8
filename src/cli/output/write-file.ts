import { RollcallError } from '../../kernel/errors.ts';

/**
 * Writes files where a person wants them.
 *
 * @throws RollcallError `bad_usage` where the system refuses
 */
export function writing<T>(write: () => T): T {
  try {
    return write();
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error;
    throw new RollcallError('bad_usage', `Nothing can be written there: ${error.message}.`, { cause: error });
  }
}
