import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import { startFastPostgres } from './postgres.ts';

const TOGETHER = fileURLToPath(new URL('./run-together.ts', import.meta.url));
const WITHOUT_HOOKS = new URL('./without-async-hooks.ts', import.meta.url).href;
const TIMEOUT = 1_190_000;

interface Rerun {
  /** As `live/crash`. */
  readonly suites: readonly string[];
  /** The number of databases that they need. */
  readonly databases: number;
  /** Longest run of all, and of each, in milliseconds. */
  readonly timeout?: number;
}

/** Runs test files, which run on SQLite otherwise, once more on Postgres: one after the other in a process of their own. */
export async function runOnPostgres(t: Test, { suites, databases, timeout = TIMEOUT }: Rerun): Promise<void> {
  t.setTimeout(timeout);
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const urls: string[] = [];
  for (let n = 0; n < databases; n += 1) urls.push(await server.store());
  const files = suites.map((suite) => `${suite}.test.ts`);
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
