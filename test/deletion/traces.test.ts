import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Fastify from 'fastify';
import pg from 'pg';
import t, { type Test } from 'tap';
import type { App } from '../../src/app.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { startApp } from '../collect/running.ts';
import { ADMIN, AS_ADMIN } from '../helpers/admin.ts';
import { startFastPostgres } from '../helpers/postgres.ts';

/** Plain, short enough for DuckDB's statistics, and what JSON escapes. */
const GONE = ['person-77-of-traces', 'aa-77', 'zoë "q" \\ ✓ 77'];
const STAYS = 'somebody-else-99';

/** A column that goes with changes of the user, as the definitions compute it. */
const columnOf = (id: string) => createHash('md5').update(id).digest('hex');
/** Every way in which the id may stand in a file, and the user's column. */
const formsOf = (id: string) => [id, JSON.stringify(id).slice(1, -1), encodeURIComponent(id), columnOf(id)];

/** Receivers: one takes everything, one refuses and repeats what it got, one is down until it is told otherwise. */
async function startReceivers(t: Test) {
  const app = Fastify();
  const state = {
    isDown: true,
    told: [] as { type: string; userId?: string; traits?: Readonly<Record<string, unknown>> }[],
  };
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) => done(null, body));
  app.post('/takes', async (request) => {
    state.told.push(JSON.parse(request.body as string));
    return 'ok';
  });
  app.post('/refuses', async (request, reply) =>
    reply.code(JSON.parse(request.body as string).type === 'delete' ? 200 : 400).send(request.body),
  );
  app.post('/down', async (request, reply) => (state.isDown ? reply.code(503).send(request.body) : 'ok'));
  t.teardown(() => app.close());
  return { state, url: await app.listen({ host: '127.0.0.1', port: 0 }) };
}

interface Place {
  readonly store: string;
  readonly engine: object;
  /** SQL that gives the members of the audience. */
  readonly sql: string;
  setMembers(users: readonly string[]): Promise<void>;
}

function writeConfig(folder: string, url: string, { store, engine, sql }: Place): string {
  const destination = (name: string) => ({ name, sources: ['shop'], webhooks: [{ url: `${url}/${name}` }] });
  const audience = { name: 'club', source: 'shop', sql, with: ['email'], guard: { allowEmpty: true } };
  const config = {
    ...{ store, listen: { host: '127.0.0.1', port: 0 }, network: { allow: ['127.0.0.0/8'] } },
    admin: ADMIN,
    sources: [{ id: 'shop', writeKey: 'WK' }],
    destinations: ['takes', 'refuses', 'down'].map(destination),
    ...{ engines: { lake: engine }, audiences: [audience] },
  };
  const file = join(folder, 'rollcall.yaml');
  writeFileSync(file, JSON.stringify(config));
  return file;
}

const next = () => new Promise((resolve) => setImmediate(resolve));

/** Users leave their ids wherever they can, and are then deleted. */
async function live(app: App & { readonly address: string }, place: Place): Promise<string> {
  const post = (path: string, body: unknown, headers = {}) =>
    fetch(`${app.address}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
  const authorization = `Basic ${Buffer.from('WK:').toString('base64')}`;
  const batch = [...GONE, STAYS].flatMap((userId) => [
    { type: 'identify', userId, messageId: `signup ${userId}`, traits: { name: userId } },
    { type: 'alias', userId: STAYS, previousId: userId, messageId: `merge ${userId}` },
    { type: 'track', event: 'Seen', userId, properties: { page: 'x'.repeat(20_000), id: userId } },
  ]);
  const discarded = GONE.flatMap((userId) => [
    { type: 'track', userId, messageId: `no event of ${userId}`, properties: { [userId]: userId } },
    { type: 'track', userId: STAYS, event: `Met ${userId}`, properties: 'none' },
  ]);
  await post('/v1/batch', { batch: [...batch, ...discarded] }, { authorization });
  while ((await app.store.discards({ limit: 10 })).length < 2 * GONE.length) await next();
  await place.setMembers([...GONE, STAYS]);
  await app.sync.run();
  // Some leave the audience, so that the engine has leavers, too.
  await place.setMembers([STAYS, GONE[0] as string]);
  await app.sync.run();
  while ((await app.store.attempts({ limit: 1000 })).length < 36) await next();
  while ((await app.store.deadLetters({ limit: 1000 })).length < 12) await next();
  await place.setMembers([STAYS]);
  const request = { regulationType: 'DELETE_ONLY', subjectType: 'USER_ID', subjectIds: GONE };
  const filed = await post('/regulations', request, AS_ADMIN);
  const { data } = (await filed.json()) as { data: { regulateId: string } };
  return data.regulateId;
}

async function finish(t: Test, app: App, id: string): Promise<void> {
  let regulation = await app.regulations.find(id);
  while (regulation?.status === 'RUNNING' || regulation?.status === 'INITIALIZED') {
    regulation = await app.regulations.find(id);
    await next();
  }
  t.match(regulation, { status: 'FINISHED', userIds: [], subjects: 3 });
}

/** Until all notices are delivered, with whatever else was pending. */
async function delivered(app: App): Promise<void> {
  while ((await app.store.backlog()).some(({ pending }) => pending > 0)) await next();
}

t.test('no file holds a deleted user once the request is finished and the notices are delivered', async (t) => {
  const folder = t.testdir({});
  const data = join(folder, 'data');
  spawnSync('mkdir', [data]);
  const receivers = await startReceivers(t);
  // The definition reads the customer's table, where the user is gone.
  const csv = join(folder, 'members.csv');
  const place: Place = {
    store: `sqlite:${join(data, 'rollcall.db')}`,
    engine: { type: 'duckdb', path: join(data, 'audiences.duckdb') },
    sql: `select user_id, md5(user_id) as email from read_csv('${csv}', header = true, all_varchar = true, quote = '''', escape = '''')`,
    setMembers: async (users) => writeFileSync(csv, ['user_id', ...users.map((user) => `'${user}'`), ''].join('\n')),
  };
  const app = await startApp(t, writeConfig(folder, receivers.url, place));
  const id = await live(app, place);
  await finish(t, app, id);
  receivers.state.isDown = false;
  await delivered(app);
  // In a process of its own: closing a file here would end the locks that SQLite holds on it.
  const found = (text: string) =>
    spawnSync('grep', ['-r', '-l', '-a', '-F', '-e', text, data], { encoding: 'utf8' }).stdout;
  const notices = receivers.state.told.filter(({ type }) => type === 'delete').map(({ userId }) => userId);
  t.same(new Set(notices), new Set(GONE));
  for (const user of GONE) for (const form of formsOf(user)) t.equal(found(form), '', form);
  t.match(found(STAYS), /rollcall\.db/, 'the search finds what is there');
  t.match(found('club'), /audiences\.duckdb/);
  t.ok(
    receivers.state.told.some(({ traits }) => traits?.['email'] === columnOf(GONE[0] ?? '')),
    'the column was sent',
  );
});

t.test('no table of Postgres holds a deleted user', async (t) => {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const [store, warehouse] = [await server.database(), await server.database()];
  await migratePostgres(store);
  const client = new pg.Client(warehouse);
  await client.connect();
  await client.query('CREATE TABLE people (user_id text)');
  const receivers = await startReceivers(t);
  const place: Place = {
    store,
    engine: { type: 'postgres', url: warehouse },
    sql: 'select user_id, md5(user_id) as email from people',
    async setMembers(users) {
      await client.query('DELETE FROM people');
      await client.query('INSERT INTO people SELECT unnest($1::text[])', [users]);
    },
  };
  const app = await startApp(t, writeConfig(t.testdir({}), receivers.url, place));
  await finish(t, app, await live(app, place));
  receivers.state.isDown = false;
  await delivered(app);
  const inStore = new pg.Client(store);
  await inStore.connect();
  for (const [name, db] of Object.entries({ store: inStore, warehouse: client })) {
    const tables = await db.query<{ name: string }>(
      "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'rollcall' ORDER BY 1",
    );
    t.ok(tables.rows.length > 3);
    for (const { name: table } of tables.rows) {
      for (const form of GONE.flatMap(formsOf)) {
        const hex = Buffer.from(form).toString('hex');
        const { rows } = await db.query(
          `SELECT r::text FROM rollcall."${table}" AS r WHERE strpos(replace(r::text, '""', '"'), $1) > 0 OR strpos(r::text, $2) > 0`,
          [form, hex],
        );
        t.same(rows, [], `${name} ${table}`);
      }
    }
  }
  await Promise.all([client.end(), inStore.end()]);
});
