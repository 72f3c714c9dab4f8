import pg from 'pg';
import t from 'tap';
import { systemClock } from '../../src/clock.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { seenKey } from '../../src/store/postgres/seen.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import { accept, message } from '../contract/store-fixture.ts';
import { startPostgres } from '../helpers/postgres.ts';

const DAY = 86_400_000;
const server = await startPostgres(['fsync = off']);
t.teardown(() => server.stop());

/** A store as the version before message ids were pruned by batches left it. */
async function olderStore(): Promise<readonly [url: string, client: pg.Client]> {
  const url = await server.database();
  await migratePostgres(url, 2);
  const client = new pg.Client(url);
  await client.connect();
  return [url, client];
}

t.test(
  'message ids that an earlier version noted by day are still known, and forgotten when their day is over',
  async (t) => {
    const [url, client] = await olderStore();
    t.teardown(() => client.end());
    const today = Math.floor(Date.now() / DAY);
    const [fresh, ...old] = Array.from({ length: 2_501 }, () => message());
    const note = 'INSERT INTO rollcall.seen SELECT k, $2 FROM unnest($1::uuid[]) AS k';
    await client.query(note, [[fresh].map((each) => seenKey(each as NonNullable<typeof fresh>)), today]);
    await client.query(note, [old.map(seenKey), today - 3]);
    t.same(await migratePostgres(url), [3, 4]);
    const store = await openPostgresStore({ url, maxQueued: 10_000, clock: systemClock });
    t.teardown(() => store.close());
    const given = [fresh as NonNullable<typeof fresh>, ...old];
    t.match(await accept(store, ...given), { accepted: 0, duplicates: 2_501 });
    let forgotten = 0;
    for (let step = 1; step > 0; forgotten += step) step = await store.prune(0, 1_000);
    t.equal(forgotten, 2_500);
    t.match(await accept(store, ...given), { accepted: 2_500, duplicates: 1 });
  },
);

t.test('a process of the version before can go on taking messages after the migration', async (t) => {
  const [url, client] = await olderStore();
  t.teardown(() => client.end());
  await migratePostgres(url);
  const noted = await client.query('INSERT INTO rollcall.seen (id, day) VALUES (gen_random_uuid(), 1)');
  t.equal(noted.rowCount, 1);
});
