import { join } from 'node:path';
import pg from 'pg';
import t, { type Test } from 'tap';
import type { EngineConfig } from '../../../src/config/config.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';
import { audience, createRig, duckdbAt, type Rig, trait } from '../helpers/rig.ts';

const server = await startFastPostgres();
t.teardown(() => server.stop());

const IDS = 'select id as user_id from people';

interface Place {
  readonly rig: Rig;
  readonly client: pg.Client;
  readonly url: string;
  /** Moves the snapshots of `warehouse` to this engine; null for its own database. */
  keepIn(snapshots: string | null, url?: string): void;
}

async function place(t: Test): Promise<Place> {
  const url = await server.database();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  t.teardown(() => client.end());
  await client.query(
    "CREATE TABLE people (id text, plan text); INSERT INTO people VALUES ('a', 'x'), ('b', 'x'), ('c', 'x')",
  );
  const rig = await createRig(t);
  const keepIn: Place['keepIn'] = (snapshots, at = url) => {
    const own: EngineConfig = { type: 'postgres', url: at, concurrency: 1 };
    rig.config.engines = {
      home: duckdbAt(join(rig.config.folder, 'home.duckdb')),
      other: duckdbAt(join(rig.config.folder, 'other.duckdb')),
      warehouse: snapshots === null ? own : { ...own, snapshots },
    };
  };
  keepIn(null);
  const engine = 'warehouse';
  rig.config.audiences = [audience('club', IDS, { engine })];
  rig.config.traits = [trait('plan', 'select id as user_id, plan from people', { engine })];
  return { rig, client, url, keepIn };
}

/** What is sent by a sync: `user: value`. */
async function sent({ rig }: Place, now: string): Promise<readonly string[]> {
  rig.setTime(now);
  for (const { error } of await rig.sync.run()) if (error) throw error;
  return ((await rig.deliver()).get('crm') ?? [])
    .map(({ userId, traits }) => `${userId} ${JSON.stringify(traits)}`)
    .toSorted();
}

t.test('snapshot, leavers and history move with `snapshots`, and nothing is sent again', async (t) => {
  const all = await place(t);
  const { rig, client, keepIn } = all;
  t.equal((await sent(all, '2026-03-01T12:00:00Z')).length, 6);
  await client.query("DELETE FROM people WHERE id = 'a'");
  t.same(await sent(all, '2026-03-01T13:00:00Z'), ['a {"club":false}', 'a {"plan":null}']);
  for (const [hour, home] of ['home', 'other', null, 'home', null].entries()) {
    keepIn(home);
    const now = `2026-03-02T0${hour}:00:00Z`;
    const [plan] = await rig.sync.plan(['club'], { now: Date.parse(now) });
    t.match(plan, { before: 2, members: 2, messages: 0 }, `a plan before the move to ${home}`);
    t.match(await rig.sync.why('club', 'a'), { member: false }, 'people see it where it is');
    t.same(await sent(all, now), [], `${home}`);
    const story = await rig.sync.why('club', 'a');
    t.equal(story.member, false);
    t.same(
      story.changes.map(({ change }) => change),
      ['entered', 'left'],
      'history moved along',
    );
    const { rows } = await client.query('SELECT key FROM rollcall.snapshots');
    t.equal(rows.length, home === null ? 2 : 0, 'nothing is left where it was');
  }
  await client.query("INSERT INTO people VALUES ('d', 'y')");
  t.same(await sent(all, '2026-03-03T00:00:00Z'), ['d {"club":true}', 'd {"plan":"y"}']);
  keepIn('home');
  t.match(
    await rig.sync.resync('club'),
    { error: null, runs: [{ entered: 0, exited: 0, sent: 4 }] },
    'a, who left, too',
  );
});

t.test('moves from a database that has become read-only', async (t) => {
  const all = await place(t);
  const { client, url, keepIn } = all;
  await sent(all, '2026-03-01T12:00:00Z');
  await client.query(`DROP ROLE IF EXISTS sees; CREATE ROLE sees LOGIN; GRANT SELECT ON people TO sees;
    GRANT USAGE ON SCHEMA rollcall TO sees; GRANT SELECT ON ALL TABLES IN SCHEMA rollcall TO sees`);
  keepIn('home', url.replace('//rollcall@', '//sees@'));
  await client.query("DELETE FROM people WHERE id = 'b'");
  t.same(await sent(all, '2026-03-01T13:00:00Z'), ['b {"club":false}', 'b {"plan":null}']);
});

t.test('a user who is deleted while a snapshot is to be moved is nowhere', async (t) => {
  const all = await place(t);
  const { rig, client, keepIn } = all;
  await sent(all, '2026-03-01T12:00:00Z');
  keepIn('home');
  await rig.sync.forget({ users: ['a'], anonymous: [] }, null, async () => false);
  await client.query("DELETE FROM people WHERE id = 'a'");
  t.same(await sent(all, '2026-03-01T13:00:00Z'), []);
  t.same((await rig.sync.memberPage('club', '', 10)).userIds, ['b', 'c']);
});

t.test('finishes a run that was interrupted before the move', async (t) => {
  const all = await place(t);
  const { rig, client, keepIn } = all;
  await sent(all, '2026-03-01T12:00:00Z');
  await client.query("INSERT INTO people VALUES ('d', 'x')");
  rig.config.audiences = [
    audience('club', IDS, {
      engine: 'warehouse',
      guard: { maxExits: null, maxEntries: { count: 0 }, maxChanges: null, minMembers: 0, allowEmpty: true },
    }),
  ];
  rig.setTime('2026-03-01T13:00:00Z');
  const [held] = await rig.sync.run(['club']);
  t.match(held, { runs: [{ state: 'held' }] });
  keepIn('home');
  t.match(await rig.sync.run(['club']), [{ isStillHeld: true }], 'a held run waits where its plan is');
  t.match(await rig.sync.approve(held?.runs[0]?.id ?? ''), { error: null, runs: [{ state: 'done', sent: 1 }] });
  t.match(await rig.sync.run(['club']), [{ error: null, runs: [{ sent: 0, members: 4 }] }]);
  t.equal((await client.query("SELECT FROM rollcall.snapshots WHERE key = 'club'")).rowCount, 0);
});

t.test('another engine is no move', async (t) => {
  const all = await place(t);
  const { rig } = all;
  await sent(all, '2026-03-01T12:00:00Z');
  rig.config.audiences = [audience('club', "select 'a' as user_id", { engine: 'home' })];
  t.match(await rig.sync.run(['club']), [{ error: { code: 'engine_changed' } }]);
});
