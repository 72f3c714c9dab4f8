import type { Test } from 'tap';
import type { Store } from '../../src/store/port.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';
import type { ManualClock } from './clock.ts';
import { emptyPostgres, isOnPostgres } from './store.ts';
import { startLocalThread, startSharedThread } from './store-threads.ts';

/** An empty database whose time is that of a test's clock. */
export interface TestDatabase {
  readonly clock: ManualClock;
  /** Opens it for one more process. SQLite in memory has one store for all. */
  open(): Promise<Store>;
  /** Whether a store is at work. */
  readonly isBusy: boolean;
  /** Resolves once none is. */
  idle(): Promise<void>;
  /** Closes the stores. */
  close(): Promise<void>;
}

interface Options {
  readonly maxQueued?: number;
  /** SQLite's file; in memory unless given. */
  readonly path?: string;
}

/** Such a database, closed with the test at the latest. On Postgres the tests of a file use one after the other. */
export async function testDatabase(t: Test, clock: ManualClock, options: Options = {}): Promise<TestDatabase> {
  const { maxQueued = 1_000_000, path = ':memory:' } = options;
  const postgres = isOnPostgres ? await timedPostgres() : null;
  const opened: Store[] = [];
  const underWay = new Set<Promise<unknown>>();
  let closing: Promise<unknown> | null = null;
  const database: TestDatabase = {
    clock,
    async open() {
      const [first] = opened;
      if (first && !postgres && path === ':memory:') return first;
      const store = await (postgres
        ? openPostgresStore({ url: postgres.url, maxQueued, clock, time: POSTGRES_TIME })
        : openSqliteStore({
            path,
            maxQueued,
            clock,
            startThread: path === ':memory:' ? startLocalThread : startSharedThread,
          }));
      const perform = async (work: () => Promise<unknown>) => {
        // A test moves its clock at once, the database's follows later: no verb begins before.
        while (postgres && postgres.time !== clock.true) await postgres.tellTime(clock.true);
        return work();
      };
      const watched = each(store, (work) => {
        const done = perform(work).finally(() => underWay.delete(done));
        underWay.add(done);
        return done;
      });
      opened.push(watched);
      return watched;
    },
    get isBusy() {
      return underWay.size > 0;
    },
    async idle() {
      while (underWay.size > 0) await Promise.allSettled(underWay);
    },
    async close() {
      closing ??= Promise.all(opened.map((store) => store.close())).then(postgres?.giveBack);
      await closing;
    },
  };
  t.teardown(database.close);
  return database;
}

const POSTGRES_TIME = '(SELECT ms FROM public.clock)';

async function timedPostgres() {
  const { url, admin, giveBack } = emptyPostgres();
  // Made anew it would have every statement planned anew.
  await admin.query('CREATE TABLE IF NOT EXISTS public.clock AS SELECT 0::bigint AS ms');
  let time = 0;
  let telling: Promise<void> | null = null;
  return {
    url,
    giveBack,
    /** The time by its clock. */
    get time() {
      return time;
    },
    tellTime(ms: number): Promise<void> {
      telling ??= admin.query('UPDATE public.clock SET ms = $1', [ms]).then(() => {
        time = ms;
        telling = null;
      });
      return telling;
    },
  };
}

/** The store, with every verb performed by `perform`. */
function each(store: Store, perform: (work: () => Promise<unknown>) => Promise<unknown>): Store {
  return new Proxy(store, {
    get(target, verb) {
      const value: unknown = Reflect.get(target, verb);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => perform(() => value.apply(target, args));
    },
  });
}
