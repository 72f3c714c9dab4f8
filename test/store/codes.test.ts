import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import pg from 'pg';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/kernel/clock.ts';
import { MESSAGE_TYPES } from '../../src/message-types.ts';
import { LANES, OUTCOMES, type Store } from '../../src/store/port.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';
import { CLAIMED, READY, WAITING } from '../../src/store/states.ts';
import { accept, attempt, change, claim, message, retryAt, settlement } from '../contract/store-fixture.ts';
import { startFastPostgres } from '../helpers/postgres.ts';

/*
 * The numbers below stand in databases that exist. Whoever finds this test failing has changed the disk format: new ones go
 * to the end, and those that are there stay as they are.
 */

t.test('uses places in lists as codes of the disk format', async (t) => {
  t.same(MESSAGE_TYPES, ['identify', 'track', 'page', 'screen', 'group', 'alias', 'delete']);
  t.same(LANES, ['deletion', 'live', 'backfill']);
  t.same(OUTCOMES, ['success', 'retry', 'refused', 'tls_untrusted', 'address_refused', 'skipped']);
  t.same({ READY, CLAIMED, WAITING }, { READY: 0, CLAIMED: 1, WAITING: 2 });
});

/** The rows of a query, as names and numbers. */
type Read = (sql: string) => Promise<Readonly<Record<string, number>>>;

/** Puts one of each into the database, and looks at what is written there; `lane` is the column that says it. */
async function checkRows(t: Test, store: Store, read: Read, lane: string, tried: Readonly<Record<string, number>>) {
  const owner = await store.join(60_000);
  const one = async (destination: string) => {
    const [found] = await claim(store, owner, { destination, limit: 1 });
    if (!found) throw new Error(`nothing could be claimed for ${destination}`);
    return found;
  };
  for (const type of MESSAGE_TYPES) await accept(store, message({ type, messageId: type, destinations: ['types'] }));
  t.same(await read("SELECT message_id, type FROM delivery WHERE message_id NOT LIKE 'm%'"), {
    ...{ identify: 0, track: 1, page: 2, screen: 3, group: 4, alias: 5, delete: 6 },
  });

  for (const lane of LANES) await accept(store, message({ lane, messageId: lane, destinations: [`lane-${lane}`] }));
  const ofLanes = `SELECT message_id, ${lane} FROM delivery WHERE message_id IN ('deletion', 'live', 'backfill')`;
  t.same(await read(ofLanes), { deletion: 0, live: 1, backfill: 2 });
  for (const lane of LANES) {
    await store.settle(owner, [settlement(await one(`lane-${lane}`), retryAt(Date.now() + 3_600_000))]);
  }
  t.same(await read(ofLanes), tried, 'once they have been tried');

  await accept(store, message({ messageId: 'ready', destinations: ['states'] }));
  await accept(store, change('k', { messageId: 'claimed', destinations: ['changes'] }));
  const claimed = await one('changes');
  await accept(store, change('k', { messageId: 'waiting', destinations: ['changes'] }));
  const states = "SELECT message_id, state FROM delivery WHERE message_id IN ('ready', 'claimed', 'waiting')";
  t.same(await read(states), { ready: 0, claimed: 1, waiting: 2 });

  const attempts = OUTCOMES.map((outcome) => attempt({ outcome, error: outcome }));
  await store.settle(owner, [settlement(claimed, { kind: 'delivered' }, attempts)]);
  t.same(await read('SELECT error, outcome FROM attempt'), {
    ...{ success: 0, retry: 1, refused: 2, tls_untrusted: 3, address_refused: 4, skipped: 5 },
  });
  t.same(await read(states), { ready: 0, waiting: 0 });
}

t.test('stores these codes in SQLite', async (t) => {
  const path = join(t.testdir({}), 'rollcall.db');
  const store = await openSqliteStore({ path, maxQueued: 100, clock: systemClock });
  const file = new DatabaseSync(path, { readOnly: true });
  t.teardown(async () => {
    file.close();
    await store.close();
  });
  const read: Read = async (sql) =>
    Object.fromEntries(
      file
        .prepare(sql)
        .all()
        .map((row) => Object.values(row)),
    );
  await checkRows(t, store, read, 'lane', { deletion: 0, live: 1, backfill: 2 });
});

t.test('stores these codes in Postgres, with `rank` showing if a delivery was tried', async (t) => {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const url = await server.database();
  await migratePostgres(url);
  const store = await openPostgresStore({ url, maxQueued: 100, clock: systemClock });
  const client = new pg.Client({ connectionString: url, options: '-c search_path=rollcall' });
  await client.connect();
  const read: Read = async (sql) =>
    Object.fromEntries((await client.query({ text: sql, rowMode: 'array' })).rows as [string, number][]);
  await checkRows(t, store, read, 'rank', { deletion: 3, live: 4, backfill: 5 });
  await client.end();
  await store.close();
});
