import { cp, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import t, { type Test } from 'tap';
import { startFastPostgres } from '../helpers/postgres.ts';
import { jsonLines, rollcall, start } from './helpers.ts';

const postgres = await startFastPostgres();
t.teardown(() => postgres.stop());

const OWN = '{ type: duckdb, path: own.duckdb }';

interface Project {
  readonly folder: string;
  /** Runs a command with its configuration. */
  run(...args: string[]): ReturnType<typeof rollcall>;
  /** Has its audience in this engine, with these users. */
  configure(engine: string, users: readonly string[], store?: string): Promise<void>;
}

/** A project with a store of its own. */
async function project(t: Test, given?: string): Promise<Project> {
  const folder = given ?? (await mkdtemp(join(tmpdir(), 'rollcall-foreign-')));
  const before = process.cwd();
  t.teardown(async () => {
    process.chdir(before);
    await rm(folder, { recursive: true, force: true });
  });
  const config = join(folder, 'rollcall.yaml');
  return {
    folder,
    run: (...args) => rollcall([...args, '-c', config]),
    configure: (engine, users, store = 'sqlite:./store.db') =>
      writeFile(
        config,
        `store: "${store}"
network: { allow: [127.0.0.0/8] }
listen: { port: 0 }
sources: [{ id: personas, writeKey: personas-key }]
destinations: [{ name: crm, sources: [personas], sharedSecret: s3cret, webhookUrl: "http://127.0.0.1:9/hooks" }]
engines:
  warehouse: ${engine}
audiences:
  - name: Club
    source: personas
    sql: select unnest(array[${users.map((user) => `'${user}'`).join(', ')}]) as user_id
    guard: { maxExits: 100% }
`,
      ),
  };
}

/** Exit code of a sync whose messages can't be delivered, as nothing listens. */
const SYNCED = { code: 4, stderr: /^(?!.*snapshot_)/s };

async function plan({ run }: Project): Promise<unknown> {
  const [line] = jsonLines(await run('plan', '--json'));
  return line;
}

type Engine = (schema?: string) => string;

const KINDS: Readonly<Record<string, (folder: string) => Promise<Engine>>> = {
  duckdb: async (folder) => (schema) =>
    `{ type: duckdb, path: ${join(folder, 'warehouse.duckdb')}${schema ? `, schema: ${schema}` : ''} }`,
  async postgres() {
    const url = await postgres.database();
    return (schema) => `{ type: postgres, url: "${url}"${schema ? `, schema: ${schema}` : ''} }`;
  },
};

for (const [type, warehouseIn] of Object.entries(KINDS)) {
  t.test(`dev and prod on one warehouse: ${type}`, async (t) => {
    const prod = await project(t);
    const dev = await project(t);
    const warehouse = await warehouseIn(prod.folder);
    await prod.configure(warehouse(), ['1', '2', '3']);
    t.match(await prod.run('sync', '--once'), SYNCED);

    // Equal versions: dev has synced the same audience elsewhere.
    await dev.configure(OWN, ['8', '9']);
    t.match(await dev.run('sync', '--once'), SYNCED);
    await dev.configure(warehouse(), ['1']);
    const foreign =
      /snapshot_foreign.*the snapshots of the store \w+; this store is \w+.*`schema: NAME`.*rollcall engines adopt warehouse/;
    t.match(await plan(dev), { error: { code: 'snapshot_foreign', key: 'club' } });
    for (const args of [
      ['sync', '--once'],
      ['resync', 'club'],
      ['retire', 'club', '--yes'],
      ['members', 'club'],
      ['why', 'club', '1'],
    ])
      t.match(await dev.run(...args), { code: 1, stderr: foreign }, args.join(' '));
    t.match(await dev.run('doctor'), { code: 1, stdout: /FAILED +engine warehouse: snapshot_foreign/ });
    t.match(await plan(prod), { before: 3, members: 3, messages: 0 }, 'and nothing of it was touched');

    await dev.configure(warehouse('rollcall_dev'), ['1']);
    t.match(await plan(dev), { error: { code: 'snapshot_lost' } }, 'its own snapshot stayed elsewhere');
    t.match(await dev.run('resync', 'club'), SYNCED);
    await dev.configure(warehouse('rollcall_dev'), ['1', '2']);
    t.match(await plan(dev), { before: 1, members: 2, entered: 1 });
    await prod.configure(warehouse(), ['1', '2']);
    t.match(await plan(prod), { before: 3, exited: 1 });
    t.match(await Promise.all([prod.run('sync', '--once'), dev.run('sync', '--once')]), [SYNCED, SYNCED]);
    t.match(await prod.run('members', 'club', '--json'), { stdout: /"1".*"2"/s });

    await dev.configure(warehouse(), ['1']);
    t.match(await dev.run('engines', 'adopt', 'warehouse'), { code: 2, stderr: /fails from then on.*--yes/ });
    t.match(
      await start(['engines', 'adopt', 'warehouse', '-c', join(dev.folder, 'rollcall.yaml')], {
        tty: true,
        answer: 'n\n',
      }).finished,
      { code: 1, stderr: /Nothing was adopted/ },
    );
    t.match(await plan(prod), { before: 2 });
    t.match(await dev.run('engines', 'adopt', 'nowhere', '--yes'), { code: 2, stderr: /nowhere/ });
    t.match(await dev.run('engines', 'adopt', 'warehouse', '--yes'), {
      code: 0,
      stdout: /belong to this store \(\w+\)/,
    });
    t.match(await dev.run('engines', 'adopt', 'warehouse'), { code: 0 }, 'which asks nothing the second time');
    t.match(await plan(prod), { error: { code: 'snapshot_foreign' } });
    t.match(await prod.run('sync', '--once'), { code: 1, stderr: foreign });
    t.match(await plan(dev), { error: { code: 'snapshot_lost' } }, 'whose version is behind');
    t.match(await dev.run('resync', 'club'), SYNCED);
    t.match(await plan(dev), { before: 1, messages: 0 });
  });
}

t.test('snapshots without an owner go to the store whose versions fit', async (t) => {
  const [prod, dev] = [await project(t), await project(t)];
  const url = await postgres.database();
  const query = async (sql: string) => {
    const client = new pg.Client(url);
    await client.connect();
    const { rows } = await client.query({ text: sql, rowMode: 'array' }).finally(() => client.end());
    return rows;
  };
  const engine = `{ type: postgres, url: "${url}" }`;
  await prod.configure(engine, ['1', '2']);
  t.match(await prod.run('sync', '--once'), SYNCED);
  const owner = 'SELECT store FROM rollcall.snapshot_store';
  const [known] = await query(owner);
  await query('DROP TABLE rollcall.snapshot_store');
  await dev.configure(OWN, ['1']);
  await dev.run('sync', '--once');
  await dev.run('resync', 'club');
  await dev.configure(engine, ['1']);
  const stranger = /club has the version 1, this store knows 2/;
  t.match(await plan(dev), { error: { code: 'snapshot_foreign', message: stranger } });
  t.match(await dev.run('sync', '--once'), { code: 1, stderr: stranger });
  t.same(await query(owner), [], 'no failed sync takes them');
  await prod.configure(engine, ['1']);
  t.match(await plan(prod), { before: 2, exited: 1 });
  t.same(await query(owner), [], 'nor does a plan');
  t.match(await prod.run('sync', '--once'), SYNCED);
  t.same(await query(owner), [known]);
});

t.test('a move, a backup and a restored database keep the store', async (t) => {
  const prod = await project(t);
  const engine = `{ type: postgres, url: "${await postgres.database()}" }`;
  await prod.configure(engine, ['1', '2']);
  t.match(
    await Promise.all([prod.run('sync', '--once'), prod.run('sync', '--once')]),
    [SYNCED, SYNCED],
    'two processes',
  );
  const copy = join(prod.folder, 'copy');
  t.match(await prod.run('backup', copy), { code: 0 });
  const restored = await project(t, join(prod.folder, 'restored'));
  await rename(copy, restored.folder);
  const url = await postgres.database();
  t.match(await rollcall(['migrate', '--from', `sqlite:${join(restored.folder, 'store.db')}`, '--to', url]), {
    code: 0,
  });
  await restored.configure(engine, ['3'], url);
  t.match(await restored.run('sync', '--once'), SYNCED);
  t.match(await restored.run('migrate', '--restored'), { code: 0 });
  t.match(await plan(restored), { before: 1, messages: 0 });
  await restored.configure(engine, ['3'], 'sqlite:./store.db');
  t.match(await restored.run('sync', '--once'), { code: 1, stderr: /store_missing.*moved/ }, 'the old store has ended');
  await restored.configure(engine, ['3'], url);
  const before = await restored.run('engines', 'adopt', 'warehouse', '--json');
  t.match(await restored.run('migrate', '--copy'), { code: 0 });
  t.match(await plan(restored), { error: { code: 'snapshot_foreign' } }, 'a copy is another store');
  const adopted = await restored.run('engines', 'adopt', 'warehouse', '--json', '--yes');
  t.not(jsonLines<{ store: string }>(adopted)[0]?.store, jsonLines<{ store: string }>(before)[0]?.store);
});

t.test('a copy runs while the original does', async (t) => {
  const prod = await project(t);
  await prod.configure(OWN, ['1', '2']);
  t.match(await prod.run('sync', '--once'), SYNCED);
  t.match(await prod.run('backup', join(prod.folder, 'copy')), { code: 0 });
  const staging = await project(t);
  await cp(join(prod.folder, 'copy'), staging.folder, { recursive: true });
  await staging.configure(OWN, ['1', '2', '3']);
  t.match(await staging.run('migrate', '--copy', '--restored'), { code: 2 });
  const [{ copy } = { copy: '' }] = jsonLines<{ copy: string }>(await staging.run('migrate', '--copy', '--json'));
  t.match(copy, /^\w+$/);
  t.match(await staging.run('sync', '--once'), { code: 1, stderr: /snapshot_foreign.*this store is/ });
  t.match(await staging.run('engines', 'adopt', 'warehouse', '--yes'), { code: 0, stdout: new RegExp(copy) });
  t.match(await plan(staging), { before: 2, entered: 1, messages: 1 });
  t.match(await staging.run('sync', '--once'), SYNCED);
  t.match(await plan(prod), { before: 2, messages: 0 });
});
