import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import { startFastPostgres } from './postgres.ts';

const TOGETHER = fileURLToPath(new URL('./run-together.ts', import.meta.url));
const WITHOUT_HOOKS = new URL('./without-async-hooks.ts', import.meta.url).href;
const TIMEOUT = 1_190_000;

/**
 * Runs test files, which run on SQLite otherwise, once more on Postgres: one after the other in a process of their own.
 *
 * @param suites - the number of stores that each needs at once
 * @param timeout - longest run of all that a file names, and of each of them, in milliseconds
 */
export async function runOnPostgres(
  t: Test,
  suites: Readonly<Record<string, number>>,
  timeout = TIMEOUT,
): Promise<void> {
  t.setTimeout(timeout);
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const urls: string[] = [];
  for (const count of Object.values(suites)) {
    for (let n = 0; n < count; n += 1) urls.push(await server.store());
  }
  const files = Object.keys(suites).map((suite) => `${suite}.test.ts`);
  const env = {
    ...process.env,
    NODE_OPTIONS: `--import=${WITHOUT_HOOKS}`,
    TAP_TIMEOUT: String(timeout / 1_000),
    TEST_STORES: urls.join(' '),
    TEST_FILES: files.join(' '),
    // The same files may run at the same time, and their fixtures are named after them.
    TAP_CWD: t.testdir({}),
  };
  await t.spawn(process.execPath, [...process.execArgv, TOGETHER], { env, timeout }, 'on Postgres');
}
