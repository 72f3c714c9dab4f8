import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');

const gc: () => void = runInNewContext('gc');

/**
 * Leaves in memory what is held only. When V8 looks for itself depends on how busy the machine is. A collection frees
 * the memory of buffers on a thread of its own, which the next collection waits for.
 */
export function collectGarbage(): void {
  gc();
  gc();
}
