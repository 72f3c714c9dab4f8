import pg from 'pg';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/kernel/clock.ts';
import { DeliveryIds } from '../../../src/store/delivery-ids.ts';
import type { Claim, ClaimRequest } from '../../../src/store/port.ts';
import type { StoreContext } from '../../../src/store/postgres/context.ts';
import { countersOf } from '../../../src/store/postgres/counters.ts';
import { Cursors } from '../../../src/store/postgres/cursors.ts';
import { Database } from '../../../src/store/postgres/database.ts';
import { CounterParts } from '../../../src/store/postgres/parts.ts';
import { ClaimStatement } from '../../../src/store/postgres/queue/claim-statement.ts';
import { Seldom } from '../../../src/store/postgres/seldom.ts';
import { openPostgresStore } from '../../../src/store/postgres/store.ts';
import {
  accept,
  bodies,
  change,
  claim,
  DELIVERED,
  message,
  RELEASE,
  START,
  StandingClock,
  settle,
} from '../../contract/store-fixture.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';

const server = await startFastPostgres(['autovacuum = off']);
t.teardown(() => server.stop());
const TTL = 10_000_000;
const HOUR = 3_600_000;

/** A database whose time moves when told, an idle transaction that pins its rows, and a process's claims. */
async function scene(t: Test) {
  const url = await server.store();
  const [admin, idle] = [new pg.Client(url), new pg.Client(url)];
  await Promise.all([admin.connect(), idle.connect()]);
  const clock = new StandingClock();
  await admin.query(`CREATE TABLE public.clock AS SELECT ${clock.now()}::bigint AS ms`);
  const options = { url, clock: clock.ahead(), time: '(SELECT ms FROM public.clock)' };
  const store = await openPostgresStore({ ...options, maxQueued: 1_000_000 });
  const db = new Database(options);
  t.teardown(() => Promise.all([store.close(), db.close(), admin.end(), idle.end()]));
  const owner = await store.join(TTL);
  const [[name] = ['']] = await db.rows<[string]>("SELECT value FROM rollcall.meta WHERE key = 'store'");
  await idle.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
  return {
    ...{
      url,
      admin,
      store,
      owner,
      context: { db, ids: new DeliveryIds(name), parts: new CounterParts(db) } as StoreContext,
      open: (maxQueued = 1_000_000) => openPostgresStore({ ...options, maxQueued }),
    },
    async advance(ms: number) {
      clock.move(ms);
      await admin.query('UPDATE public.clock SET ms = ms + $1', [ms]);
    },
  };
}

const request = (over: Partial<ClaimRequest> = {}): ClaimRequest => ({
  ...{ destination: 'crm', limit: 500, order: 'usual', ...over },
});

/** The pages that a statement looks at. It is carried out. */
async function pagesOf(db: Database, sql: string, values: readonly unknown[]): Promise<number> {
  const [row] = await db.rows<[[{ Plan: Record<string, number> }]]>(
    `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${sql}`,
    values,
  );
  const { 'Shared Hit Blocks': hit = 0, 'Shared Read Blocks': read = 0 } = row?.[0][0].Plan ?? {};
  return hit + read;
}

/** Claims of a process. */
function claimer(context: StoreContext, owner: number) {
  const { db } = context;
  const cursors = new Cursors(context);
  const statement = new ClaimStatement(context, cursors);
  let pages = 0;
  const explained = {
    now: db.now,
    async rows(sql: string, values: readonly unknown[]) {
      pages = await pagesOf(db, sql, values);
      return [];
    },
  };
  const watched = new ClaimStatement({ ...context, db: explained as unknown as Database }, cursors);
  return {
    cursors,
    claim: async (over?: Partial<ClaimRequest>): Promise<readonly Claim[]> =>
      (await statement.run(owner, [request(over)])).claims[0] ?? [],
    /** The pages that a claim looks at. */
    async cost(): Promise<number> {
      await watched.run(owner, [request()]);
      return pages;
    },
  };
}

/** A row that was ready so many milliseconds ago, and is seen only now. */
const lateRow = (admin: pg.Client, ms: number) =>
  admin.query(`WITH late AS (
      INSERT INTO rollcall.delivery (due_at, accepted_at, tries, rank, state, type, destination, source, message_id, body)
      SELECT ms - ${ms}, ms - ${ms}, 0, 1, 0, 0, 'crm', 'shop', '${ms}', '${ms}' FROM public.clock)
    INSERT INTO rollcall.backlog VALUES ('crm', 0, 1, 0, 1, 0)
    ON CONFLICT (destination, part) DO UPDATE SET pending = backlog.pending + 1, queued = backlog.queued + 1`);

const ROUNDS = 40;

t.test('claims do not pass delivered rows that an open transaction pins', async (t) => {
  const { store, owner, context, advance, admin } = await scene(t);
  const { cursors, claim, cost } = claimer(context, owner);
  await cursors.sweep();
  const before = await cost();
  for (let round = 0; round < ROUNDS; round += 1) {
    await accept(store, ...Array.from({ length: 500 }, () => message()));
    const claims = await claim();
    t.equal(claims.length, 500);
    await settle(store, owner, claims, DELIVERED);
    await advance(1_000);
  }
  const { rows } = await admin.query('SELECT count(*)::int AS n FROM rollcall.delivery');
  t.same(rows, [{ n: 0 }]);
  await advance(60_000);
  await claim();
  const after = await cost();
  const started = claimer(context, owner);
  const unswept = await started.cost();
  t.ok(unswept > 300, `one that knew nothing would pass all: ${unswept}`);
  await started.cursors.sweep();
  const swept = await started.cost();
  for (const [who, pages] of Object.entries({ after, swept })) {
    t.ok(pages < before + 50, `${who}: ${pages} pages instead of ${before}, with ${ROUNDS * 500} dead rows`);
  }
});

t.test('finds returned and delayed deliveries in their order', async (t) => {
  const { store, owner, context, advance } = await scene(t);
  const { cursors, claim } = claimer(context, owner);
  await cursors.sweep();
  await accept(store, ...['1', '2', '3', '4'].map((body) => message({ body })));
  const [first, second, third] = (await claim({ limit: 3 })) as [Claim, Claim, Claim];
  await advance(HOUR);
  await accept(store, message({ body: '5' }));
  t.same(bodies(await claim({ limit: 1 })), ['4']);
  await settle(store, owner, [third], RELEASE);
  await settle(store, owner, [second], { kind: 'release', dueAt: store.time.now() + 1_000 });
  await settle(store, owner, [first], {
    ...{ kind: 'retry', dueAt: store.time.now() - 60_000, firstAt: store.time.now() - 60_000, marks: {} },
  });
  t.same(bodies(await claim()), ['3', '5', '1'], 'first what came back, last what was tried');
  await advance(1_000);
  t.same(bodies(await claim()), ['2']);
});

t.test('finds late commits: soon if they took no longer than a statement may, else by a sweep', async (t) => {
  const { owner, context, advance, admin } = await scene(t);
  const { cursors, claim } = claimer(context, owner);
  await cursors.sweep();
  t.same(await claim(), []);
  await advance(HOUR);
  t.same(await claim(), []);
  const late = (ms: number) => lateRow(admin, ms);
  await late(100);
  await late(5_000);
  await late(60_000);
  t.same(bodies(await claim()), ['100'], 'at once');
  await advance(2_000);
  t.same(bodies(await claim()), ['5000']);
  await cursors.sweep();
  t.same(bodies(await claim()), ['60000']);
});

t.test('a claim under way during a sweep does not skip deliveries that the sweep found', async (t) => {
  const { owner, context, advance, admin } = await scene(t);
  const { cursors, claim } = claimer(context, owner);
  await cursors.sweep();
  await advance(HOUR);
  await claim();
  const line = cursors.line('crm');
  await lateRow(admin, 60_000);
  await cursors.sweep();
  cursors.claimed(line, request(), new Map(), START + HOUR);
  t.same(bodies(await claim()), ['60000']);
});

t.test('skips a row that another session holds, and finds it again', async (t) => {
  const { store, owner, context, advance, admin } = await scene(t);
  const { cursors, claim } = claimer(context, owner);
  await cursors.sweep();
  await accept(store, message({ body: '"held"' }));
  await advance(1_000);
  await accept(store, message({ body: '"free"' }));
  await admin.query(`BEGIN; SELECT FROM rollcall.delivery WHERE body = '"held"' FOR UPDATE`);
  t.same(bodies(await claim({ limit: 1 })), ['"free"']);
  await admin.query('ROLLBACK');
  t.same(bodies(await claim()), []);
  await advance(2_000);
  t.same(bodies(await claim()), ['"held"']);
});

t.test('reads counters without passing their old versions, and correctly while they are folded', async (t) => {
  const { store, owner, context, open, advance, admin } = await scene(t);
  const other = await open();
  t.teardown(() => other.close());
  const { db, parts } = context;
  const cost = () => pagesOf(db, countersOf("SELECT 'crm'", '$1'), [parts.since]);
  let delivered = 0;
  for (let round = 1; round <= 30; round += 1) {
    await Promise.all([
      ...Array.from({ length: 40 }, () => accept(round % 2 ? store : other, message())),
      accept(store, change(`k${round % 3}`)),
      ...(round % 3 === 0 ? [store.rescue(), other.rescue(), parts.fold()] : []),
    ]);
    const claims = await claim(store, owner);
    await Promise.all([settle(store, owner, claims, DELIVERED), ...(round % 4 === 0 ? [other.rescue()] : [])]);
    delivered += claims.length;
    t.equal(delivered, round * 41);
    for (const each of [store, other]) t.match(await each.backlog(), [{ pending: 0, dead: 0, queued: 0, heldOut: 0 }]);
    await advance(round % 5 === 0 ? 60_000 : 5_000);
  }
  await accept(store, message(), message());
  await advance(60_000);
  await parts.fold();
  for (const each of [store, other]) t.match(await each.backlog(), [{ pending: 2, queued: 2 }]);
  const { rows } = await admin.query('SELECT part::int, pending::int, queued::int FROM rollcall.backlog');
  t.same(rows, [{ part: 0, pending: 2, queued: 2 }]);
  const folded = await cost();
  parts.since = 1;
  const all = await cost();
  t.ok(folded < 30 && all > 2 * folded, `${folded} pages, and ${all} without folding`);
});

t.test('counts late writes to a folded part from the next fold on', async (t) => {
  const { store, advance, admin } = await scene(t);
  await accept(store, message());
  await advance(60_000);
  await store.rescue();
  await admin.query("INSERT INTO rollcall.backlog VALUES ('crm', 1, 1, 0, 1, 0)");
  await advance(60_000);
  await store.rescue();
  t.match(await store.backlog(), [{ pending: 2, queued: 2 }]);
  const { rows } = await admin.query('SELECT part::int FROM rollcall.backlog');
  t.same(rows, [{ part: 0 }]);
});

t.test('repeats long work seldom', async (t) => {
  let now = 0;
  const seldom = new Seldom({ ...systemClock, monotonic: () => now });
  const done: number[] = [];
  const run = (ms: number) =>
    seldom.run(async () => {
      done.push(now);
      now += ms;
    });
  await run(0);
  await run(50);
  await run(1);
  now = 4_999;
  await run(1);
  now = 5_000;
  await run(1);
  t.same(done, [0, 0, 5_000]);
});

t.test('requeues held-out letters in order, late ones too', async (t) => {
  const { open, owner, advance, admin } = await scene(t);
  const store = await open(2);
  t.teardown(() => store.close());
  await accept(store, ...Array.from({ length: 8 }, (_, n) => message({ body: `${n}` })));
  const seen: string[] = [];
  const drain = async () => {
    const claims = await claim(store, owner);
    seen.push(...bodies(claims));
    await settle(store, owner, claims, DELIVERED);
    await advance(60_000);
  };
  await drain();
  for (let n = 0; n < 2; n += 1) {
    t.equal(await store.requeue('crm', 10), 2);
    await drain();
  }
  await admin.query(`UPDATE rollcall.dead_letter SET accepted_at = accepted_at - 3600000 WHERE body = '7'`);
  for (let n = 0; n < 2; n += 1) {
    await store.requeue('crm', 10);
    await drain();
  }
  t.same(seen, ['0', '1', '2', '3', '4', '5', '6', '7']);
  t.match(await store.backlog(), [{ pending: 0, dead: 0, queued: 0, heldOut: 0 }]);
});

t.test("lets a sweep and a search for a process's claims take longer than a statement", async (t) => {
  const { url } = await scene(t);
  const hasty = new URL(url);
  hasty.searchParams.set('statement_timeout', '100');
  const db = new Database({ url: hasty.href, clock: systemClock });
  t.teardown(() => db.close());
  await t.rejects(db.rows('SELECT pg_sleep(0.3)'), { code: 'store_busy' });
  t.equal((await db.patient('SELECT pg_sleep(0.3)')).length, 1);
  await t.rejects(db.rows('SELECT pg_sleep(0.3)'), { code: 'store_busy' }, 'only that one');
});

t.test("shows one process's counts to the others, also after the database's clock was set", async (t) => {
  const { admin, store, open } = await scene(t);
  const other = await open();
  t.teardown(() => other.close());
  for (const step of [HOUR, -2 * HOUR]) {
    await admin.query('UPDATE public.clock SET ms = ms + $1', [step]);
    await store.rescue();
    const [before] = await store.backlog();
    await accept(other, message());
    const [after] = await store.backlog();
    t.equal((after?.pending ?? 0) - (before?.pending ?? 0), 1);
  }
});
