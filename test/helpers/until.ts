import { setTimeout as pause } from 'node:timers/promises';

const LOOK_EVERY = 10;
/** Longer than anything that a test waits for takes on a busy machine, in milliseconds. */
const PATIENCE = 300_000;

/**
 * Resolves once it is so, and fails with it where it never is. It has to stay so. Between two looks, what is waited for has
 * the CPU: for twice as long as a look takes.
 */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const since = performance.now();
  for (;;) {
    const lookedAt = performance.now();
    if (await isSo()) return;
    if (lookedAt - since > PATIENCE) throw new Error(`This did not come true: ${isSo}`);
    await pause(Math.max(LOOK_EVERY, 2 * (performance.now() - lookedAt)));
  }
}
