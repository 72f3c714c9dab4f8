import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import t from 'tap';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { startFastPostgres } from './postgres.ts';

const WITHOUT_HOOKS = new URL('./without-async-hooks.ts', import.meta.url).href;
const TIMEOUT = 590_000;
/** Characters that are shown of one that stands still. */
const LAST_WORDS = 4_000;

/**
 * Runs test files, which run on SQLite otherwise, once more on Postgres.
 *
 * @param suites - the number of stores that each needs
 * @param timeout - longest run of all that a file names, and of each of them, in milliseconds
 */
export async function runOnPostgres(suites: Readonly<Record<string, number>>, timeout = TIMEOUT): Promise<void> {
  t.setTimeout(timeout);
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const template = await server.database();
  await migratePostgres(template);
  const admin = new pg.Client(template.replace(/[^/]+$/, 'postgres'));
  await admin.connect();
  const { pathname } = new URL(template);

  /** Copies of a migrated database take a fifth of the time of migrating. Each is a store with an id of its own. */
  async function stores(suite: string, count: number): Promise<string> {
    const urls = Array.from({ length: count }, (_, n) => `${template}_${suite.replaceAll(/\W/g, '_')}_${n}`);
    for (const url of urls)
      await admin.query(`CREATE DATABASE ${new URL(url).pathname.slice(1)} TEMPLATE ${pathname.slice(1)}`);
    return urls.join(' ');
  }

  for (const [suite, count] of Object.entries(suites)) {
    await t.test(`${suite} on Postgres`, async (t) => {
      const file = fileURLToPath(new URL(`../${suite}.test.ts`, import.meta.url));
      const env = {
        ...process.env,
        // Without the runner's hooks: the file reports for itself.
        ...{ NODE_OPTIONS: '', TAP: '0', TAP_TIMEOUT: String(timeout / 1_000) },
        TEST_STORES: await stores(suite, count),
        // The same file may run at the same time, and its fixtures are named after it.
        TAP_CWD: t.testdir({}),
      };
      const child = spawn(process.execPath, ['--import', WITHOUT_HOOKS, file], {
        env,
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      let output = '';
      child.stdout.setEncoding('utf8').on('data', (part: string) => {
        output += part;
      });
      t.teardown(() => {
        // One that stands still is ended with this test, which says how far it came.
        if (child.kill('SIGKILL')) t.comment(output.slice(-LAST_WORDS));
      });
      const [code] = await once(child, 'close');
      t.equal(
        code,
        0,
        output
          .split('\n')
          .filter((line) => line.includes('not ok'))
          .join('\n'),
      );
      if (code !== 0) t.comment(output);
    });
  }
  await admin.end();
}
