import type { Clock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { DeliveryIds } from '../delivery-ids.ts';
import { LastWrite } from '../last-write.ts';
import { OwnOwners } from '../own-owners.ts';
import type { Store, StoreEvents } from '../port.ts';
import { bury, expire, restNotices } from '../queue/burying.ts';
import { erase } from '../queue/erase.ts';
import { deliverAgain, drop, replay, resend } from '../queue/letters.ts';
import { performShared, sharedPorts } from '../shared-ports.ts';
import { check } from './check.ts';
import type { StoreContext } from './context.ts';
import { Database, PATIENCE } from './database.ts';
import { tableLog } from './events/event-log.ts';
import { checkVersion } from './migrate.ts';
import { CounterParts } from './parts.ts';
import { Pruning } from './prune.ts';
import { Intake } from './queue/accept.ts';
import { Claims, type Free } from './queue/claim.ts';
import { Requeue } from './queue/held-out.ts';
import { heartbeat, join, leave, rescue, servedSince } from './queue/leases.ts';
import { Settlements } from './queue/settle.ts';
import { queueSessionOf } from './queue-session.ts';
import { scrub } from './scrub.ts';
import { sessionOf } from './session.ts';

interface PostgresOptions {
  readonly url: string;
  /** Untried deliveries per destination at most; each process may go beyond it by what it accepts at once. */
  readonly maxQueued: number;
  readonly clock: Clock;
  /** SQL for milliseconds since 1970; the database's clock by default. */
  readonly time?: string;
  readonly events?: StoreEvents;
}

/**
 * Open the store that any number of processes share. The database's clock decides about leases and due times. Times
 * cross as distances from now, so the clocks of hosts may differ.
 *
 * @throws RollcallError `store_outdated` when migrations are pending, `store_failed` when the database can't be reached
 */
export async function openPostgresStore({ maxQueued, events, ...options }: PostgresOptions): Promise<Store> {
  const db = new Database({ ...options, ...(events ? { onDamaged: events.onDamaged } : {}) });
  try {
    return storeOn({ db, url: options.url, maxQueued, ...(await identify(db)) });
  } catch (error) {
    await db.close();
    throw error;
  }
}

/** Read the store's identity, after a check that the tables are ours. */
async function identify(db: Database): Promise<Pick<StoreContext, 'ids' | 'suppressionKey' | 'parts'>> {
  await checkVersion(db);
  const meta = new Map(await db.rows<[string, string]>('SELECT key, value FROM rollcall.meta'));
  return {
    ids: new DeliveryIds(meta.get('store') ?? ''),
    suppressionKey: meta.get('suppression_key') ?? '',
    parts: new CounterParts(db),
  };
}

function storeOn(context: StoreContext): Store {
  const { db } = context;
  const claims = new Claims(context);
  const intake = new Intake(context, claims);
  const settlements = new Settlements(context);
  const free: Free = (...given) => settlements.free(...given);
  const queue = queueSessionOf(context, claims.cursors);
  // Erasing reads whole tables.
  const erasing = queueSessionOf(context, claims.cursors, PATIENCE);
  const requeue = new Requeue(queue, context.maxQueued);
  const pruning = new Pruning(context);
  const own = new OwnOwners();
  const { during, soundly, close } = untilClosed(db);
  const lastWrite = new LastWrite(db.clock, () => during(() => db.run(TRY_WRITE, [db.clock.token(TRY_BYTES)])));
  const session = sessionOf(context);
  const { records, live } = sharedPorts((call) => during(() => performShared(session, call)));
  return {
    ...records,
    id: context.ids.store,
    live,
    time: db.time,
    maxQueued: context.maxQueued,
    accept: (request) => lastWrite.of(soundly(() => intake.accept(request))),
    join: (ttl) =>
      soundly(async () => {
        const owner = await join(context, ttl);
        own.add(owner);
        await claims.cursors.sweep();
        return owner;
      }),
    heartbeat: (owner, ttl) =>
      lastWrite.of(
        during(() => heartbeat(context, owner, ttl)),
        false,
      ),
    leave: (owner) =>
      during(async () => {
        await claims.left(owner, () => leave(context, free, owner));
        own.delete(owner);
      }),
    servedSince: () => during(() => servedSince(context)),
    rescue: () => during(() => rescue(context, free, claims, own)),
    begin: (owner, given) => during(() => settlements.begin(owner, given)),
    claim: (owner, requests) => soundly(() => claims.claim(owner, requests)),
    settle: (owner, given, keeps = false) =>
      lastWrite.of(
        during(async () => {
          await settlements.settle(owner, given, keeps);
          claims.settled(owner, given);
        }),
      ),
    expire: (...given) => during(() => expire(queue, ...given)),
    restNotices: (...given) => during(() => restNotices(queue, ...given)),
    bury: (...given) => during(() => bury(queue, ...given)),
    requeue: (destination, limit) => during(() => requeue.run(destination, limit)),
    prune: (before, limit) => during(() => pruning.prune(before, limit)),
    replay: (replays) => during(() => replay(queue, replays)),
    deliverAgain: (replays) => during(() => deliverAgain(queue, replays)),
    resend: (...given) => during(() => resend(queue, ...given)),
    drop: (ids) => during(() => drop(queue, ids)),
    erase: (...given) => during(() => erase(erasing, ...given)),
    events: tableLog(context, during),
    scrub: () => during(() => scrub(context)),
    check: (thorough) => (thorough ? during(() => check(db)) : Promise.resolve(null)),
    examine: () => during(() => db.examine()),
    clockAhead: () => during(() => clockAhead(db)),
    ping: () =>
      soundly(async () => {
        lastWrite.check();
        await db.run('SELECT 1');
      }),
    close: () => {
      lastWrite.close();
      return close();
    },
  };
}

/** Larger than what fits into a page with free room: on a full disk, smaller writes may succeed. */
const TRY_BYTES = 16_384;
const TRY_WRITE = `INSERT INTO rollcall.meta VALUES ('written', $1)
  ON CONFLICT (key) DO UPDATE SET value = excluded.value`;

async function clockAhead(db: Database): Promise<number> {
  const asked = db.clock.now();
  const [[theirs] = [asked]] = await db.rows<[number]>(`SELECT ${db.now}`);
  // The answer is from some moment in between.
  return Math.round((asked + db.clock.now()) / 2 - theirs);
}

function untilClosed(db: Database) {
  const running = new Set<Promise<unknown>>();
  let closing: Promise<void> | null = null;

  /** Run work that closing waits for; reject once closing has begun. */
  function during<T>(work: () => Promise<T>): Promise<T> {
    if (closing) return Promise.reject(new RollcallError('store_closed', 'The store is closed.'));
    const result = work();
    const done: Promise<void> = result.then(
      () => void running.delete(done),
      () => void running.delete(done),
    );
    running.add(done);
    return result;
  }

  /** Like `during`, but reject also once the database has been found damaged. */
  const soundly = <T>(work: () => Promise<T>) => (db.damage ? Promise.reject(db.damage) : during(work));

  const close = () => {
    closing ??= Promise.all(running).then(() => db.close());
    return closing;
  };
  return { during, soundly, close };
}
