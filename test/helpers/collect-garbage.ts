import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');

/** Leaves in memory what is held only. When V8 looks for itself depends on how busy the machine is. */
export const collectGarbage: () => void = runInNewContext('gc');
