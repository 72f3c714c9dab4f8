import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import t from 'tap';
import { jsonLines, listen, rollcall } from '../cli/helpers.ts';
import { startFastPostgres } from '../helpers/postgres.ts';

const EXAMPLE = fileURLToPath(new URL('../../examples/environments/', import.meta.url));
const postgres = await startFastPostgres();
t.teardown(() => postgres.stop());

t.test('keeps environments apart that read one warehouse, and promotes a change from one to the next', async (t) => {
  const WAREHOUSE_URL = await postgres.database();
  const client = new pg.Client(WAREHOUSE_URL);
  await client.connect();
  await client.query(
    "create table orders as select 'u' || i as customer_id, i * 10 as amount from generate_series(1, 100) i",
  );
  await client.end();
  const root = await mkdtemp(join(tmpdir(), 'rollcall-environments-'));
  const before = process.cwd();
  t.teardown(async () => {
    process.chdir(before);
    await rm(root, { recursive: true, force: true });
  });

  async function environment(name: string) {
    const folder = join(root, name);
    await cp(EXAMPLE, folder, { recursive: true });
    const listener = await listen(t, '--secret', `${name}-secret`);
    const variables = {
      ...{ ROLLCALL_STORE: `sqlite:./${name}.db`, ROLLCALL_SCHEMA: `rollcall_${name}`, WAREHOUSE_URL },
      ...{ CRM_URL: `${listener.url}/hooks`, CRM_SECRET: `${name}-secret`, PERSONAS_WRITE_KEY: name },
    };
    const set = (changed = {}) =>
      writeFile(
        join(folder, '.env'),
        Object.entries({ ...variables, ...changed })
          .map((pair) => pair.join('='))
          .join('\n'),
      );
    await set();
    const config = join(folder, 'rollcall.yaml');
    const run = (...args: readonly string[]) => rollcall([...args, '-c', config]);
    return { folder, listener, run, set, plan: async () => jsonLines(await run('plan', '--json'))[0] };
  }

  const [staging, prod] = [await environment('staging'), await environment('prod')];
  for (const { run } of [staging, prod]) {
    t.match(await run('config', 'check', '--sql'), { code: 0, stdout: /1 definition of 1 can be run/ });
    t.match(await run('sync', '--once'), { code: 0, stderr: /^(?!.*snapshot_)/s });
  }
  t.match(await staging.plan(), { before: 50, members: 50, entered: 0, exited: 0 });
  t.match(await prod.plan(), { before: 50, members: 50, entered: 0, exited: 0 });

  await prod.set({ ROLLCALL_SCHEMA: 'rollcall_staging' });
  t.match(await prod.run('sync', '--once'), { code: 1, stderr: /snapshot_foreign/ }, 'the schema of another store');
  await prod.set();

  // The change is merged, and staging has the commit.
  const sql = 'audiences/big-spenders.sql';
  const changed = (await readFile(join(staging.folder, sql), 'utf8')).replace('500', '450');
  await writeFile(join(staging.folder, sql), changed);
  const configs = [prod, staging].map(({ folder }) => join(folder, 'rollcall.yaml'));
  t.match(await rollcall(['config', 'diff', ...configs]), { code: 1, stdout: /- .*> 500\n.*\+ .*> 450/ });
  t.match(await staging.run('sync', '--once'), { code: 0 });
  t.match(await prod.plan(), { before: 50, members: 50, entered: 0 }, 'prod has the old commit');

  await cp(join(staging.folder, 'audiences'), join(prod.folder, 'audiences'), { recursive: true });
  t.match(await rollcall(['config', 'diff', ...configs]), { code: 0, stdout: 'No difference.\n' });
  t.match(await prod.run('plan', '--exit-code'), { code: 0, stdout: /50 → 55 members, 5 enter, 0 leave/ });
  t.match(await prod.run('sync', '--once'), { code: 0 });
  for (const { listener } of [staging, prod]) t.equal((await listener.stop()).length, 55, 'each of its own');
});
