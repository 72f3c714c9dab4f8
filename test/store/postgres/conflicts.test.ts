import pg from 'pg';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/kernel/clock.ts';
import { Database } from '../../../src/store/postgres/database.ts';
import { openPostgresStore } from '../../../src/store/postgres/store.ts';
import { seenKey } from '../../../src/store/seen-key.ts';
import { accept, change, claimOne, message, REFUSED, settle } from '../../contract/store-fixture.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';

const server = await startFastPostgres();
t.teardown(() => server.stop());

/** A store, a session that holds locks, and one that sees how many wait for them. */
async function prepare(t: Test) {
  const url = await server.store();
  const store = await openPostgresStore({ url, maxQueued: 100, clock: systemClock });
  const [holder, watcher] = [new pg.Client(url), new pg.Client(url)];
  await Promise.all([holder.connect(), watcher.connect()]);
  t.teardown(() => Promise.all([store.close(), holder.end(), watcher.end()]));
  const waiting = async (count: number) => {
    const sql = `SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    while ((await watcher.query<{ n: number }>(sql)).rows[0]?.n !== count);
  };
  return { url, store, holder, waiting };
}

t.test('leaves no dead letter of a change that dies while a newer one is accepted', async (t) => {
  const { store, holder, waiting } = await prepare(t);
  const owner = await store.join(60_000);
  await accept(store, change('vip:u0', { body: '"old"' }));
  const old = await claimOne(store, owner);
  await holder.query('BEGIN; SELECT FROM rollcall.delivery FOR UPDATE');
  const settled = settle(store, owner, [old], REFUSED);
  await waiting(1);
  const accepted = accept(store, change('vip:u0', { body: '"new"' }));
  await waiting(2);
  await holder.query('COMMIT');
  await Promise.all([settled, accepted]);
  t.same(await store.deadLetters({ limit: 10 }), []);
  t.match(await store.backlog(), [{ pending: 1, dead: 0 }]);
  t.equal((await claimOne(store, owner)).body, '"new"');
});

for (const [kind, made] of Object.entries({ message, change: () => change('vip:u0') })) {
  for (const [end, accepted] of Object.entries({ COMMIT: 1, ROLLBACK: 2 })) {
    t.test(`accepts once a ${kind} that another process accepts at the same moment: ${end} there`, async (t) => {
      const { store, holder, waiting } = await prepare(t);
      const both = made();
      await holder.query('BEGIN');
      await holder.query('INSERT INTO rollcall.seen (id) VALUES ($1)', [seenKey(both)]);
      const taken = accept(store, both, message());
      await waiting(1);
      await holder.query(end);
      t.match(await taken, { accepted, duplicates: 2 - accepted });
      t.match(await store.backlog(), [{ pending: accepted }]);
    });
  }
}

t.test('does not use up the retries of an accept while others accept its messages one by one', async (t) => {
  const { url, store, holder, waiting } = await prepare(t);
  const second = new pg.Client(url);
  await second.connect();
  t.teardown(() => second.end());
  const all = Array.from({ length: 10 }, () => message());
  const keys = all.map(seenKey).sort();
  const hold = async (client: pg.Client, key: string | undefined) => {
    await client.query('BEGIN');
    await client.query('INSERT INTO rollcall.seen (id) VALUES ($1)', [key]);
  };
  await hold(holder, keys[0]);
  const taken = accept(store, ...all, message());
  for (let index = 1; index < keys.length; index += 1) {
    const [before, next] = index % 2 === 0 ? [second, holder] : [holder, second];
    await waiting(1);
    await hold(next, keys[index]);
    await before.query('COMMIT');
  }
  await waiting(1);
  await second.query('COMMIT');
  t.match(await taken, { accepted: 1, duplicates: keys.length });
});

t.test('reads all events of a day while they move to its partition', async (t) => {
  const { store, holder, waiting } = await prepare(t);
  const { events } = store;
  if (events?.kind !== 'table') throw new Error('no table');
  await holder.query(`INSERT INTO rollcall.event (day, received_at, timestamp, source, message_id, type, event)
    VALUES ('2026-03-01', '2026-03-01', '2026-03-01', 's', 'm', 'track', 'Moved')`);
  await holder.query('BEGIN; LOCK TABLE ONLY rollcall.event_other IN ACCESS SHARE MODE');
  const prepared = events.prepare(Date.parse('2026-03-01'), 86_400_000);
  await waiting(1);
  const seen = events.seen();
  await waiting(2);
  await holder.query('COMMIT');
  await prepared;
  t.same(await seen, [['Moved', 1, null, null, null]]);
});

t.test('retries the first deadlock of an accept that has often clashed with others', async (t) => {
  const { url } = await prepare(t);
  const db = new Database({ url, clock: systemClock });
  t.teardown(() => db.close());
  const failing = (failures: readonly object[]) => {
    const left = [...failures];
    return db.transaction(async () => {
      const failure = left.shift();
      if (failure) throw Object.assign(new Error('It clashes'), failure);
      return 'done';
    });
  };
  const sameId = { code: '23505', constraint: 'seen_pkey' };
  const deadlock = { code: '40P01' };
  t.equal(await failing([...Array.from({ length: 20 }, () => sameId), deadlock, sameId, deadlock]), 'done');
  await t.rejects(failing(Array.from({ length: 20 }, () => deadlock)), /It clashes/);
});

t.test("uses no serializable transactions even if they are the database's default", async (t) => {
  const { url, holder } = await prepare(t);
  await holder.query(
    `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET default_transaction_isolation = serializable`,
  );
  const db = new Database({ url, clock: systemClock });
  t.teardown(() => db.close());
  const isolation = 'SHOW transaction_isolation';
  t.same(await db.rows(isolation), [['read committed']]);
  t.same(await db.transaction((session) => session.rows(isolation)), [['read committed']]);
});
