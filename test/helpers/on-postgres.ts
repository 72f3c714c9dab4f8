import { fileURLToPath } from 'node:url';
import pg from 'pg';
import type { Test } from 'tap';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
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
  const template = await server.database();
  await migratePostgres(template);
  const admin = new pg.Client(template.replace(/[^/]+$/, 'postgres'));
  await admin.connect();
  const name = new URL(template).pathname.slice(1);
  const urls: string[] = [];
  // Copies of a migrated database take a fifth of the time of migrating. Each is a store with an id of its own.
  // Copying files takes the server less than half of what it takes to log each page.
  for (const [suite, count] of Object.entries(suites)) {
    for (let n = 0; n < count; n += 1) {
      const copy = `${name}_${suite.replaceAll(/\W/g, '_')}_${n}`;
      await admin.query(`CREATE DATABASE ${copy} TEMPLATE ${name} STRATEGY FILE_COPY`);
      urls.push(template.replace(/[^/]+$/, copy));
    }
  }
  await admin.end();
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
