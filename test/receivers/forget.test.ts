import { DatabaseSync } from 'node:sqlite';
import t, { type Test } from 'tap';
import { createReceiver, type ReceiverStore, type StandaloneOptions } from '../../receivers/index.ts';
import { postgresStore } from '../../receivers/postgres.ts';
import { type SqliteStore, sqliteStore } from '../../receivers/sqlite.ts';
import { signed, webhook } from '../../receivers/testing.ts';
import { appPool, startFastPostgres } from '../helpers/postgres.ts';
import { manualClock, signal } from './helpers/clock.ts';
import { silent } from './helpers/hosts.ts';
import { membership } from './helpers/samples.ts';

const server = await startFastPostgres();
t.teardown(() => server.stop());
const DAY = 24 * 60 * 60 * 1000;

interface Fixture {
  readonly store: ReceiverStore;
  advance(ms: number): Promise<void>;
  /** All that the store has written. */
  dump(): Promise<string>;
  /** Writes what was left of a change that a former secret signed. */
  leave(name: string, sequence: number): Promise<void>;
}

const fixtures: Record<string, (t: Test) => Promise<Fixture>> = {
  async sqlite(t) {
    const clock = manualClock();
    const file = `${t.testdir()}/receiver.db`;
    const store = sqliteStore(file, { now: clock.now });
    const db = new DatabaseSync(file);
    t.teardown(() => [store, db].forEach((each) => void each.close()));
    return {
      store,
      advance: async (ms) => clock.advance(ms),
      dump: async () =>
        ['request', 'change'].map((name) => texts(db.prepare(`select * from ${name}`).all())).join('\n'),
      async leave(name, sequence) {
        db.prepare('insert into change (name, sequence) values (?, ?)').run(name, sequence);
      },
    };
  },
  async postgres(t) {
    const pool = appPool(await server.database());
    t.teardown(() => pool.end());
    await pool.query('create table test_clock as select 1000::bigint as ms');
    const store = postgresStore({ pool, time: '(select ms from test_clock)' });
    await store.migrate();
    return {
      store,
      advance: async (ms) => void (await pool.query('update test_clock set ms = ms + $1', [ms])),
      dump: async () => texts((await pool.query('select * from rollcall_receiver')).rows),
      leave: async (name, sequence) =>
        void (await pool.query('insert into rollcall_receiver (name, sequence) values ($1, $2)', [
          `c:${name}`,
          sequence,
        ])),
    };
  },
};
const texts = (rows: readonly object[]) => rows.map((row) => Object.values(row).join(' ')).join('\n');

function start(options: Partial<StandaloneOptions>) {
  const { handle } = createReceiver({ on: {}, log: silent, ...options } as StandaloneOptions);
  return async (body: unknown, key = 's') => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const response = await handle(new Request('http://app/hooks', { method: 'POST', ...signed(text, key) }));
    return (await response.json()) as Record<string, unknown>;
  };
}

/** Long enough for the store to look at what is old. */
async function muchLater({ advance }: Fixture, send: ReturnType<typeof start>): Promise<void> {
  await advance(DAY + 1);
  for (let index = 0; index <= 100; index += 1) await send(webhook('track', { event: `e${index}`, userId: 'other' }));
}

for (const [name, open] of Object.entries(fixtures)) {
  t.test(`${name}: forgets a deleted user once nothing older can arrive any more`, async (t) => {
    const fixture = await open(t);
    const send = start({ secret: 's', store: fixture.store, name: 'crm' });
    const odd = 'a","b\\",%_\u00e9]';
    for (const user of ['gone', odd, 'back', 'stays']) await send(membership('vips', user, true, 5));
    await fixture.leave(JSON.stringify(['crm|former', 'audience', 'id-vips', 'gone']), 5);
    await fixture.leave(JSON.stringify(['billing|x', 'audience', 'id-vips', 'gone in another receiver']), 5);
    for (const userId of ['gone', odd, 'back', 'gone in another receiver'])
      t.same(await send(webhook('delete', { userId })), { received: true, unhandled: true });
    for (const user of ['gone', odd]) t.match(await send(membership('vips', user, true, 4)), { stale: true });
    t.match(await send(membership('vips', 'back', true, 6)), { received: true });
    await muchLater(fixture, send);
    const text = await fixture.dump();
    for (const gone of ['"gone"', JSON.stringify(odd)]) t.notMatch(text, gone);
    t.match(text, 'gone in another receiver');
    for (const user of ['back', 'stays']) t.match(await send(membership('vips', user, true, 4)), { stale: true });
  });

  t.test(`${name}: forgets nothing of another tenant on a tenant's deletion notice`, async (t) => {
    const fixture = await open(t);
    const send = start({ secret: () => ['a', 'b'], store: fixture.store });
    for (const tenant of ['a', 'b']) await send(membership('vips', 'u1', true, 5), tenant);
    await send(webhook('delete', { userId: 'u1' }), 'a');
    await muchLater(fixture, (body) => send(body, 'a'));
    t.match(await send(membership('vips', 'u1', true, 4), 'b'), { stale: true });
    t.same(await send(membership('vips', 'u1', true, 3), 'a'), { received: true, unhandled: true });
  });

  t.test(`${name}: forgets nobody if a deletion notice fails`, async (t) => {
    const fixture = await open(t);
    const on = { delete: () => Promise.reject(new Error('not today')) };
    const send = start({ secret: 's', store: fixture.store, on });
    await send(membership('vips', 'u1', true, 5));
    t.match(await send(webhook('delete', { userId: 'u1' })), { code: 'handler_failed' });
    await muchLater(fixture, send);
    t.match(await send(membership('vips', 'u1', true, 4)), { stale: true });
  });
}

t.test("ack 'stored': deletes a user's given-up requests when the deletion is handled", async (t) => {
  const { store } = await (fixtures['sqlite'] as (t: Test) => Promise<Fixture>)(t);
  const inbox = store as SqliteStore;
  const deleted = signal();
  const body = (kind: 'track' | 'delete', userId: string) => Buffer.from(JSON.stringify(webhook(kind, { userId })));
  const request = (key: string, user: string) => ({ key, url: '/', secret: 0, scope: '|', user });
  for (const user of ['u1', 'u2']) {
    inbox.keep([{ ...request(`given up of ${user}`, user), body: body('track', user) }]);
    inbox.giveUp(`given up of ${user}`, 'boom');
  }
  const send = start({ secret: false, ack: 'stored', store: inbox, on: { delete: () => deleted.resolve() } });
  await send(webhook('delete', { userId: 'u1' }));
  await deleted.promise;
  while ((inbox.givenUp(10) as readonly unknown[]).length === 2) await new Promise(setImmediate);
  t.match(inbox.givenUp(10), [{ key: 'given up of u2' }]);
});
