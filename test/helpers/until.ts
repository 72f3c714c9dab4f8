import { setTimeout as pause } from 'node:timers/promises';

const LOOK_EVERY = 10;
/** Longer than anything that a test waits for takes on a busy machine, in milliseconds. */
const PATIENCE = 120_000;

/**
 * Resolves once it is so, and fails with it where it never is. It has to stay so. Between two looks, what is waited for has
 * the CPU.
 */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (const since = performance.now(); !(await isSo()); await pause(LOOK_EVERY)) {
    if (performance.now() - since > PATIENCE) throw new Error(`This did not come true: ${isSo}`);
  }
}
