import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import pg from 'pg';
import t, { type Test } from 'tap';
import { EventLogKeeper } from '../../src/events/keeper.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { type BackupOptions, backup } from '../../src/store/copy/backup.ts';
import { restorePostgres } from '../../src/store/copy/restore-postgres.ts';
import type { TableLog } from '../../src/store/event-log.ts';
import type { Regulation, Store } from '../../src/store/port.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import {
  accept,
  attempt,
  audience,
  backlogOf,
  bodies,
  change,
  claim,
  codeOf,
  DELIVERED,
  leaseOf,
  message,
  REFUSED,
  retryAt,
  run,
  settle,
  settlement,
} from '../contract/store-fixture.ts';
import { startFastPostgres } from '../helpers/postgres.ts';
import { until } from '../helpers/until.ts';

const server = await startFastPostgres();
const clock = systemClock;
const HOUR = 3_600_000;

/** A store on a database of its own, closed with the test. */
async function openedStore(t: Test, url: string): Promise<Store> {
  const store = await openPostgresStore({ url, maxQueued: 1_000_000, clock });
  t.teardown(() => store.close());
  return store;
}

async function emptyStore(t: Test): Promise<{ url: string; store: Store }> {
  const url = await server.store();
  return { url, store: await openedStore(t, url) };
}

const options = (folder: string, url: string, store: Store): BackupOptions => ({
  url,
  engines: [],
  store,
  keys: ['vip'],
  base: folder,
  folder: join(folder, 'copy'),
  clock,
});

function tableOf({ events }: Store): TableLog {
  if (events.kind !== 'table') throw new Error('The log is in files.');
  return events;
}

async function query<T extends pg.QueryResultRow>(url: string, sql: string): Promise<T[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<T>(sql);
  await client.end();
  return rows;
}

/** Holds up whatever asks for a table, until told to let go. */
async function holdTable(url: string, lock: string): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query('BEGIN');
  await client.query(`LOCK TABLE rollcall.seen IN ${lock} MODE`);
  return () => client.end();
}

/** Resolves to the server process of the connection that waits for a lock, once it has waited for so long. */
async function waitingFor(url: string, ms = 0): Promise<number> {
  const sql = `SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()
    AND query LIKE 'LOCK TABLE%' AND clock_timestamp() - query_start > ${ms} * interval '1 ms'`;
  let found: { pid: number } | undefined;
  await until(async () => {
    [found] = await query<{ pid: number }>(url, sql);
    return found !== undefined;
  });
  return found?.pid ?? 0;
}

const numberOf = (id: string) => Number.parseInt(id.slice(id.lastIndexOf('-') + 1), 36);

/** Takes and delivers messages, one batch after the other. */
function work(store: Store, owner: number) {
  const accepted: string[] = [];
  const delivered = new Set<string>();
  let highest = 0;
  let going = true;
  const intake = (async () => {
    while (going) {
      const batch = Array.from({ length: 20 }, () => message({ destinations: ['busy'] }));
      await accept(store, ...batch);
      accepted.push(...batch.map(({ messageId }) => messageId));
    }
  })();
  const delivery = (async () => {
    while (going) {
      const claims = await claim(store, owner, { destination: 'busy', limit: 15 });
      // Posted, as far as receivers know, before the store knows of it.
      for (const { messageId, id } of claims) {
        delivered.add(messageId);
        highest = Math.max(highest, numberOf(id));
      }
      await settle(store, owner, claims, DELIVERED);
    }
  })();
  return {
    accepted,
    delivered,
    async stop() {
      going = false;
      await Promise.all([intake, delivery]);
      return highest;
    },
  };
}

const regulation: Regulation = {
  id: 'r-1',
  type: 'SUPPRESS_ONLY',
  status: 'RUNNING',
  sources: null,
  ...{ userIds: ['gone'], subjects: 1, hashes: [], told: null, partial: false },
  createdAt: clock.now(),
  finishedAt: null,
};

await t.test('a copy made while messages come and go, restored, knows all that the store knew', async (t) => {
  const folder = t.testdir({});
  const { url, store } = await emptyStore(t);
  const owner = await store.join(HOUR);
  const fence = await leaseOf(store);
  await store.saveRun(run(), fence, audience());
  await store.accept({ messages: [change('k')], step: { run: 'run-1', fence, cursor: '1', epoch: 0 } });
  await store.releaseLease(fence);
  const held = await leaseOf(store, 'regulations', HOUR);
  const dead = message({ messageId: 'dead' });
  await accept(store, dead, message({ messageId: 'retried', body: '"tab\\t, line\\n, ü, \\\\."' }));
  const [first, ...others] = await claim(store, owner);
  const of = (id: string) => [first!, ...others].filter(({ messageId }) => messageId === id);
  await store.settle(owner, [settlement(of('dead')[0]!, REFUSED, [attempt({ at: clock.now() })])]);
  await settle(store, owner, of('retried'), retryAt(clock.now()));
  // `k` stays in flight, with a newer one behind it.
  await accept(store, change('k', { body: '"newest"' }));
  await store.suppress(['kept out'], null, true);
  await store.markEndpoint({ endpoint: 'e1', destination: 'crm', pausedAt: 5, deadSince: null });
  await store.saveRegulation(regulation);
  const known = async (of: Store) => ({
    crm: await backlogOf(of),
    letters: (await of.deadLetters({ limit: 10 })).map((letter) => ({ ...letter, firstAt: 0, lastAt: 0 })),
    run: await of.run('run-1'),
    runs: await of.runs({ limit: 10 }),
    progress: await of.runProgress('run-1'),
    audiences: await of.audiences(),
    endpoints: (await of.endpoints()).map(({ endpoint, destination }) => [endpoint, destination]),
    attempts: (await of.attempts({ limit: 10 })).map((each) => ({ ...each, at: 0 })),
    regulations: (await of.openRegulations()).map(({ id, status }) => [id, status]),
  });
  const expected = await known(store);

  const load = work(store, owner);
  while (load.accepted.length < 2_000) await accept(store, message({ destinations: ['pause'] }));
  const before = [...load.accepted];
  const shown = new Map<string, readonly [done: number, total: number]>();
  const given = {
    ...options(folder, url, store),
    onProgress: (table: string, ...counts: [number, number]) => void shown.set(table, counts),
  };
  t.same(await backup(given), ['store.postgres/']);
  const deliveredThen = new Set(load.delivered);
  const highest = await load.stop();
  t.ok(load.accepted.length > before.length, 'messages were taken during the backup');

  const copy = join(given.folder, 'store.postgres');
  const to = await server.database();
  const restored = await restorePostgres({ folder: copy, to });
  for (const [table, [done, total]] of shown)
    t.same([done, total], [restored.rows[table], restored.rows[table]], table);
  const again = await openedStore(t, to);
  t.same(await known(again), expected);
  t.ok((await leaseOf(again, 'regulations')).token > held.token, 'a lease of before has ended, and its fence is stale');
  t.ok((await leaseOf(again)).token > fence.token);

  const next = await again.join(HOUR);
  t.ok((await again.rescue()) > 0, 'what was in flight is free at once');
  const pending = await claim(again, next, { destination: 'busy', limit: 1_000_000 });
  t.equal((await backlogOf(again, 'busy')).pending, pending.length, 'counters fit the rows');
  const there = new Set(pending.map(({ messageId }) => messageId));
  t.same(
    before.filter((id) => !there.has(id) && !deliveredThen.has(id)),
    [],
    'nothing that was accepted is missing',
  );
  const twice = await accept(again, ...before.map((messageId) => message({ messageId, destinations: ['busy'] })));
  t.match(twice, { accepted: 0, duplicates: before.length });
  t.match(await accept(again, message({ userId: 'kept out' })), { suppressed: 1 });
  const crm = await claim(again, next);
  t.same(bodies(crm).toSorted(), ['"newest"', '"tab\\t, line\\n, ü, \\\\."']);
  t.ok(
    crm.every(({ id }) => id.startsWith(first!.id.slice(0, first!.id.lastIndexOf('-')))),
    'under the keys of before',
  );
  await accept(again, message({ destinations: ['fresh'] }));
  const [fresh] = await claim(again, next, { destination: 'fresh' });
  t.ok(numberOf(fresh!.id) > highest + 1_000_000, 'no id comes again, nor those given out after the backup');

  t.match(await codeOf(restorePostgres({ folder: copy, to })), 'bad_usage', 'a database that has been in use');
});

/** A store with a few deliveries, and its copy. */
async function copied(t: Test) {
  const folder = t.testdir({});
  const { url, store } = await emptyStore(t);
  await accept(store, ...Array.from({ length: 100 }, () => message()));
  const given = options(folder, url, store);
  await backup(given);
  return { url, store, given, copy: join(given.folder, 'store.postgres') };
}

await t.test(
  'a copy that is not whole, or not as it was written, is refused and leaves the database empty',
  async (t) => {
    const { copy } = await copied(t);
    const to = await server.database();
    const manifest = join(copy, 'manifest.json.gz');
    const rows = join(copy, 'delivery.copy.gz');
    const change = (file: string, edit: (text: string) => string) => () =>
      writeFileSync(file, gzipSync(edit(gunzipSync(readFileSync(file)).toString())));
    const cut = (file: string) => () => writeFileSync(file, readFileSync(file).subarray(0, statSync(file).size - 10));
    const spoilt: Readonly<Record<string, readonly [spoil: () => unknown, code: string]>> = {
      'without a manifest': [() => rm(manifest), 'bad_usage'],
      'with half a manifest': [cut(manifest), 'store_failed'],
      'with a manifest of something else': [change(manifest, () => '{"format":1}'), 'store_failed'],
      'of a newer format': [change(manifest, () => '{"format":2}'), 'store_outdated'],
      'of newer tables': [
        change(manifest, (text) => text.replace(/"migration": \d+/, '"migration": 999')),
        'store_outdated',
      ],
      'of older tables': [
        change(manifest, (text) => text.replace(/"migration": \d+/, '"migration": 0')),
        'store_outdated',
      ],
      'without a table': [() => rm(rows), 'store_failed'],
      'with half a table': [cut(rows), 'store_failed'],
      'with a row less': [change(rows, (text) => text.slice(text.indexOf('\n') + 1)), 'store_failed'],
      'with another row': [change(rows, (text) => text.replace('crm', 'crn')), 'store_failed'],
      'with a table that is none': [() => writeFileSync(rows, 'nothing'), 'store_failed'],
    };
    const whole = `${copy}.whole`;
    await cp(copy, whole, { recursive: true });
    for (const [name, [spoil, code]] of Object.entries(spoilt)) {
      await spoil();
      t.equal(await codeOf(restorePostgres({ folder: copy, to })), code, name);
      await rm(copy, { recursive: true });
      await cp(whole, copy, { recursive: true });
    }
    t.match((await restorePostgres({ folder: copy, to })).rows, { delivery: 100 });
  },
);

await t.test('a restored log is without who was deleted since the copy, and keeps who came back', async (t) => {
  const folder = t.testdir({});
  const { url, store } = await emptyStore(t);
  let now = clock.now();
  const keeper = (of: Store) => {
    const parts = { folder: join(folder, 'events'), keep: () => 400 * 24 * HOUR, log: { info() {}, warn: fail } };
    return new EventLogKeeper({ ...parts, store: of, clock: { ...clock, now: () => now } });
  };
  const fail = (details: object) => {
    throw (details as { err?: unknown }).err;
  };
  const log = (to: Store, messageId: string, userId: string) => {
    const at = new Date(now).toISOString();
    const body = JSON.stringify({ type: 'track', event: 'A', messageId, userId, timestamp: at, receivedAt: at });
    return to.accept({ messages: [message({ messageId, userId, body })], step: null, logged: true });
  };
  const users = async (of: string) =>
    (await query<{ id: string }>(of, 'SELECT message_id AS id FROM rollcall_events.events ORDER BY 1')).map(
      ({ id }) => id,
    );
  await keeper(store).start();
  await log(store, '1', 'ann');
  await log(store, '2', 'bob');
  await log(store, '3', 'cid');
  await backup(options(folder, url, store));
  now += HOUR;
  await keeper(store).erase([{ users: ['ann', 'cid'], sources: null }]);
  t.same(await users(url), ['2']);
  const to = await server.database();
  await restorePostgres({ folder: join(folder, 'copy', 'store.postgres'), to });
  t.same(await users(to), ['1', '2', '3'], 'the copy has them');
  const byOthers = await server.database();
  await restorePostgres({ folder: join(folder, 'copy', 'store.postgres'), to: byOthers });
  await query(byOthers, "DELETE FROM rollcall.meta WHERE key = 'restored'");
  await query(
    byOthers,
    /SELECT setval[^`]*/.exec(readFileSync(join(import.meta.dirname, '../../docs/postgres.md'), 'utf8'))?.[0] ?? '',
  );
  await keeper(await openedStore(t, byOthers)).start();
  t.same(await users(byOthers), ['2'], 'so is one that other tools restored, by the SQL of the docs');
  const restored = await openedStore(t, to);
  now += HOUR;
  await log(restored, '4', 'cid');
  await keeper(restored).start();
  t.same(await users(to), ['2', '4'], 'what came later stays');
  const [hashes = ''] = readFileSync(join(folder, 'events', 'deletions.jsonl'), 'utf8').match(/"hashes":.*/) ?? [];
  t.ok(hashes !== '' && !hashes.includes('ann'), 'no id is kept');
});

await t.test('settings of a database change neither its copies nor the days of its log', async (t) => {
  const folder = t.testdir({});
  const url = await server.database();
  const name = new URL(url).pathname.slice(1);
  for (const setting of ["DateStyle = 'SQL, DMY'", 'standard_conforming_strings = off']) {
    await query(url, `ALTER DATABASE ${name} SET ${setting}`);
  }
  await migratePostgres(url);
  const store = await openedStore(t, url);
  const log = tableOf(store);
  const at = '2026-03-02T12:00:00.000Z';
  const body = JSON.stringify({
    type: 'track',
    event: 'A',
    messageId: '1',
    userId: 'ann',
    timestamp: at,
    receivedAt: at,
  });
  await log.prepare(Date.parse(at));
  await store.accept({ messages: [message({ messageId: '1', userId: 'ann', body })], step: null, logged: true });
  const march = { events: 1, from: '2026-03-02', to: '2026-03-02' };
  t.match(await log.summary(), march);
  await backup(options(folder, url, store));
  const to = await server.database();
  await restorePostgres({ folder: join(folder, 'copy', 'store.postgres'), to });
  const restored = await openedStore(t, to);
  t.match(await tableOf(restored).summary(), march);
  await log.dropBefore('2026-03-03');
  t.match(await log.summary(), { events: 0 });
});

await t.test('a backup that fails, is cut off or given up leaves nothing, and the next one is whole', async (t) => {
  const folder = t.testdir({});
  const { url, store } = await emptyStore(t);
  await accept(store, message());
  const given = options(folder, url, store);
  const letGo = await holdTable(url, 'ACCESS EXCLUSIVE');
  const broken = codeOf(backup(given));
  await query(url, `SELECT pg_terminate_backend(${await waitingFor(url)})`);
  t.equal(await broken, 'store_failed');
  await letGo();

  const giveUp = new AbortController();
  const onProgress = () => giveUp.abort();
  t.equal(await codeOf(backup({ ...given, signal: giveUp.signal, onProgress })), 'stopping');

  const away = url.replace(/:\d+/, ':9');
  t.equal(await codeOf(backup({ ...given, url: away })), 'store_failed', 'the database is away');
  t.same(readdirSync(folder), []);
  t.same(await backup(given), ['store.postgres/']);
});

await t.test('a restore that is cut off or given up leaves the database empty', async (t) => {
  const { copy } = await copied(t);
  const to = await server.database();
  await migratePostgres(to);
  const letGo = await holdTable(to, 'ACCESS SHARE');
  const broken = codeOf(restorePostgres({ folder: copy, to }));
  await query(to, `SELECT pg_terminate_backend(${await waitingFor(to)})`);
  t.equal(await broken, 'store_failed');
  await letGo();
  const giveUp = new AbortController();
  const onProgress = (table: string) => void (table === 'delivery' && giveUp.abort());
  t.equal(await codeOf(restorePostgres({ folder: copy, to, signal: giveUp.signal, onProgress })), 'stopping');
  t.match((await restorePostgres({ folder: copy, to })).rows, { delivery: 100 });
});

await t.test('no timeout of the URL ends a backup or a restore', async (t) => {
  const { url, store, given, copy } = await copied(t);
  const limited = (given: string) => `${given}?statement_timeout=1000&lock_timeout=1000`;
  const hold = async (of: string, lock: string, work: () => Promise<unknown>) => {
    const letGo = await holdTable(of, lock);
    const working = work();
    await Promise.race([working, waitingFor(of, 1_500)]);
    await letGo();
    return working;
  };
  const again = join(given.folder, 'again');
  const making = () => backup({ ...given, url: limited(url), store, folder: again });
  t.same(await hold(url, 'ACCESS EXCLUSIVE', making), ['store.postgres/']);
  const to = await server.database();
  await migratePostgres(to);
  const restoring = () => restorePostgres({ folder: copy, to: limited(to) });
  t.match(await hold(to, 'ACCESS SHARE', restoring), { rows: { delivery: 100 } });
});

await t.test('a copy tells nothing of its URL, and nobody else may read it', async (t) => {
  const { url, store } = await emptyStore(t);
  await accept(store, message());
  const given = options(t.testdir({}), url, store);
  const [place = ''] = await backup(given);
  for (const file of readdirSync(join(given.folder, place))) {
    const path = join(given.folder, place, file);
    const text = file + gunzipSync(readFileSync(path)).toString();
    for (const part of ['127.0.0.1', new URL(url).pathname.slice(1)]) t.notMatch(text, part);
    t.equal(statSync(path).mode & 0o077, 0);
  }
});

await server.stop();
