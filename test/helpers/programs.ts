import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** Programs that tests start again and again, as processes of their own. */
export const PROGRAMS = [
  'src/cli/main.ts',
  'test/cluster/member.ts',
  'test/crash/service.ts',
  'test/e2e/receiver-part.ts',
  'test/e2e/sync-part.ts',
  'test/events/helpers/crashing.ts',
  'test/events/helpers/sending.ts',
  'test/helpers/armed-main.ts',
  'test/live/helpers/crashing.ts',
  'test/live/helpers/random-life.ts',
  'test/receivers/fleet/app.ts',
] as const;
export type Program = (typeof PROGRAMS)[number];
const STORE_THREAD = 'src/store/sqlite/thread/thread.ts';
/** What each SQLite store starts, as threads of their own, and what tests have in its place. */
export const THREADS = [STORE_THREAD, 'src/store/sqlite/thread/check-thread.ts', 'test/helpers/store-host.ts'] as const;

/**
 * The file to run one of them by. In `npm test` that is one that `bundle-programs.ts` has made, which starts in half of
 * the time. A test that runs alone starts it from its sources.
 */
export function program(path: Program | (typeof THREADS)[number]): string {
  const folder = process.env['TEST_PROGRAMS'];
  const bundled = folder === undefined ? '' : join(folder, path.replace(/\.ts$/, '.mjs'));
  return existsSync(bundled) ? bundled : join(ROOT, path);
}

/** The same for the script that a thread is given. */
export function threadScript(script: string | URL): string | URL {
  const thread = threadOf(script);
  return thread === undefined ? script : pathToFileURL(program(thread));
}

export function isStoreThread(script: string | URL): boolean {
  return threadOf(script) === STORE_THREAD;
}

function threadOf(script: string | URL) {
  if (!(script instanceof URL) || script.protocol !== 'file:') return undefined;
  const path = relative(ROOT, fileURLToPath(script));
  return THREADS.find((one) => one === path);
}
