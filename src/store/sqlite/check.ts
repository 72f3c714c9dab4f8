import { statSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { RollcallError } from '../../kernel/errors.ts';
import { BACKGROUND_LIMIT, LOOK_LIMIT } from './soundness.ts';
import type { CheckData, CheckReply } from './thread/check-thread.ts';
import { THREAD_ARGUMENTS } from './thread/store-thread.ts';

/**
 * Check the file for damage in a thread of its own. Unless `thorough`, skip a file that was checked when it was opened
 * or is too large.
 *
 * @throws RollcallError `store_failed`, `store_busy` if it can't be checked now
 */
export async function checkFile(path: string, thorough: boolean): Promise<string | null> {
  if (path === ':memory:') return null;
  const { size } = statSync(path);
  if (!thorough && (size <= LOOK_LIMIT || size > BACKGROUND_LIMIT)) return null;
  const workerData: CheckData = { path, thorough };
  const script = new URL(`./thread/check-thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url);
  const worker = new Worker(script, { workerData, execArgv: THREAD_ARGUMENTS });
  // The check must not keep the process alive.
  worker.unref();
  const { promise, resolve, reject } = Promise.withResolvers<CheckReply>();
  worker.once('message', resolve).once('error', reject);
  worker.once('exit', () => reject(new RollcallError('store_failed', `The check of ${path} was cut off.`)));
  const reply = await promise;
  if ('found' in reply) return reply.found;
  throw new RollcallError(reply.failed.code, reply.failed.message);
}
