import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import t from 'tap';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { startPostgres } from '../helpers/postgres.ts';

/**
 * Tests of the whole service, the command line and the sync, which run on SQLite otherwise, with the number of stores each needs. Tests of the
 * worker do not need it: they see nothing of a store but what the contract suite holds both to.
 */
const SUITES = {
  'cli/sync': 8,
  'collect/whole': 8,
  'jobs/life': 16,
  'jobs/forget': 8,
} as const;

t.setTimeout(230_000);
const server = await startPostgres(['fsync = off']);
t.teardown(() => server.stop());
const template = await server.database();
await migratePostgres(template);
const admin = new pg.Client(template.replace(/[^/]+$/, 'postgres'));
await admin.connect();
const { pathname } = new URL(template);

/** Copies of a migrated database take a fifth of the time of migrating. Each is a store with an id of its own. */
async function stores(suite: string, count: number): Promise<string> {
  const urls = Array.from({ length: count }, (_, n) => `${template}_${suite.replace('/', '_')}_${n}`);
  for (const url of urls)
    await admin.query(`CREATE DATABASE ${new URL(url).pathname.slice(1)} TEMPLATE ${pathname.slice(1)}`);
  return urls.join(' ');
}

for (const [suite, count] of Object.entries(SUITES)) {
  await t.test(`${suite} on Postgres`, async (t) => {
    const file = fileURLToPath(new URL(`../${suite}.test.ts`, import.meta.url));
    // Without the runner's hooks: the file reports for itself.
    const env = { ...process.env, NODE_OPTIONS: '', TAP: '0', TEST_STORES: await stores(suite, count) };
    const child = spawn(process.execPath, [file], { env, stdio: ['ignore', 'pipe', 'inherit'] });
    const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
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
