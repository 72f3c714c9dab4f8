import type { Clock } from '../../clock.ts';
import { RollcallError } from '../../errors.ts';
import { OwnOwners } from '../own-owners.ts';
import type { Store, StoreEvents } from '../port.ts';
import { Intake } from './accept.ts';
import { attempts, prune } from './attempts.ts';
import { check } from './check.ts';
import { Claims } from './claim.ts';
import type { Context } from './context.ts';
import { PARTS } from './counters.ts';
import { Database } from './database.ts';
import { bury, deadLetters, drop, expire, replay, resend, restNotices } from './dead-letters.ts';
import { deletions, excluded } from './deletions.ts';
import { backlog, endpoints, markEndpoint } from './endpoints.ts';
import { countOrphans, orphans, publish, rosters } from './fleet.ts';
import { admit, takeGeneration } from './generations.ts';
import { requeue } from './held-out.ts';
import { heartbeat, join, leave, owners, releaseLease, renewLease, rescue, servedSince, takeLease } from './leases.ts';
import { checkVersion } from './migrate.ts';
import { erase, openRegulations, regulation, saveRegulation, stripRegulation, told } from './regulations.ts';
import {
  audience,
  audiences,
  forgetAudience,
  lastSequence,
  pruneRecords,
  run,
  runProgress,
  runs,
  saveRun,
} from './runs.ts';
import { scrub } from './scrub.ts';
import { Settlements } from './settle.ts';
import { suppress } from './suppression.ts';

export interface PostgresOptions {
  readonly url: string;
  /** Undelivered messages per destination at most; each process may go beyond it by what it accepts at once. */
  readonly maxQueued: number;
  readonly clock: Clock;
  /** SQL for milliseconds since 1970, the database's clock unless given. */
  readonly time?: string;
  readonly events?: StoreEvents;
}

/**
 * Opens the store that any number of processes share. The database's clock decides about leases and due times; times
 * cross as distances from now, so that the clocks of hosts may differ.
 *
 * @throws RollcallError `store_outdated` when migrations are pending, `store_failed` when the database can't be reached
 */
export async function openPostgresStore({ maxQueued, events, ...options }: PostgresOptions): Promise<Store> {
  const db = new Database({ ...options, ...(events ? { onDamaged: events.onDamaged } : {}) });
  try {
    const part = Math.floor((db.clock.random() * PARTS) / 2) * 2;
    return storeOn({
      db,
      url: options.url,
      ...(await identify(db)),
      maxQueued,
      parts: { accept: part, settle: part + 1 },
    });
  } catch (error) {
    await db.close();
    throw error;
  }
}

/** Learns whose database this is, once its tables are known to be ours. */
async function identify(db: Database): Promise<Pick<Context, 'store' | 'suppressionKey'>> {
  await checkVersion(db);
  const meta = new Map(await db.rows<[string, string]>('SELECT key, value FROM rollcall.meta'));
  return { store: meta.get('store') ?? '', suppressionKey: meta.get('suppression_key') ?? '' };
}

function storeOn(context: Context): Store {
  const { db } = context;
  const claims = new Claims(context);
  const intake = new Intake(context, claims);
  const settlements = new Settlements(context);
  const free = (owner: number, ids?: readonly number[]) => settlements.giveBack(owner, ids);
  const own = new OwnOwners();
  const running = new Set<Promise<unknown>>();
  let closing: Promise<void> | null = null;

  /** Refuses once closing has begun; closing waits for what was begun before. */
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

  /** Refuses also once the database has been found damaged. */
  const soundly = <T>(work: () => Promise<T>) => (db.damage ? Promise.reject(db.damage) : during(work));

  return {
    time: db.time,
    maxQueued: context.maxQueued,
    accept: (request) => soundly(() => intake.accept(request)),
    join: (ttl) =>
      soundly(async () => {
        const owner = await join(context, ttl);
        own.add(owner);
        await claims.joined(owner, free);
        return owner;
      }),
    heartbeat: (owner, ttl) =>
      during(async () => {
        const held = await heartbeat(context, owner, ttl);
        // What fails here is made good by the next rescue.
        if (held) void during(() => claims.freeStale(free)).catch(() => undefined);
        else await claims.ended(owner);
        return held;
      }),
    owners: () => during(() => owners(context)),
    publish: (owner, roster) => during(() => publish(context, owner, roster)),
    rosters: (ids) => during(() => rosters(context, ids)),
    orphans: () => during(() => orphans(context)),
    countOrphans: (fence, elapsed) => during(() => countOrphans(context, fence, elapsed)),
    leave: (owner) =>
      during(async () => {
        await claims.ended(owner);
        await leave(context, free, owner);
        claims.left(owner);
        own.delete(owner);
      }),
    servedSince: () => during(() => servedSince(context)),
    rescue: () => during(() => rescue(context, free, claims, (owner) => settlements.rescue(owner), own)),
    begin: (owner, given) => during(() => settlements.begin(owner, given)),
    claim: (owner, requests) => soundly(() => claims.claim(owner, requests)),
    settle: (owner, given) =>
      during(async () => {
        await settlements.settle(owner, given);
        claims.settled(owner, given);
      }),
    expire: (destination, ...given) =>
      during(async () => {
        await claims.freeStock(free, destination);
        return expire(context, destination, ...given);
      }),
    restNotices: (destination, limit) =>
      during(async () => {
        await claims.freeStock(free, destination);
        return restNotices(context, destination, limit);
      }),
    bury: (destination, ...given) =>
      during(async () => {
        await claims.freeStock(free, destination);
        return bury(context, destination, ...given);
      }),
    requeue: (destination, limit) =>
      during(async () => {
        const queued = await requeue(context, destination, limit);
        if (queued > 0) claims.accepted([destination]);
        return queued;
      }),
    backlog: () => during(() => backlog(context)),
    endpoints: () => during(() => endpoints(context)),
    markEndpoint: (state) => during(() => markEndpoint(context, state)),
    attempts: (filter) => during(() => attempts(context, filter)),
    pruneRecords: (...given) => during(() => pruneRecords(context, ...given)),
    prune: (before, limit) => during(() => prune(context, before, limit)),
    deadLetters: (filter) => during(() => deadLetters(context, filter)),
    replay: (replays) => during(() => replay(context, replays)),
    resend: (destination, ...given) =>
      during(async () => {
        const last = await resend(context, destination, ...given);
        claims.accepted([destination]);
        return last;
      }),
    drop: (ids) => during(() => drop(context, ids)),
    takeLease: (lease, ttl) => during(() => takeLease(context, lease, ttl)),
    renewLease: (fence, ttl) => during(() => renewLease(context, fence, ttl)),
    releaseLease: (fence) => during(() => releaseLease(context, fence)),
    audience: (key) => during(() => audience(context, key)),
    audiences: () => during(() => audiences(context)),
    forgetAudience: (key, fence) => during(() => forgetAudience(context, key, fence)),
    lastSequence: (key) => during(() => lastSequence(context, key)),
    takeGeneration: (hash) => during(() => takeGeneration(context, hash)),
    admit: (candidate, fence) => during(() => admit(context, candidate, fence)),
    saveRun: (...given) => during(() => saveRun(context, ...given)),
    run: (id) => during(() => run(context, id)),
    runs: (filter) => during(() => runs(context, filter)),
    runProgress: (id) => during(() => runProgress(context, id)),
    saveRegulation: (given) => during(() => saveRegulation(context, given)),
    stripRegulation: (id) => during(() => stripRegulation(context, id)),
    regulation: (id) => during(() => regulation(context, id)),
    openRegulations: () => during(() => openRegulations(context)),
    erase: (users, sources, cursor) =>
      during(async () => {
        // Once, before the deliveries are looked through.
        if (cursor === null) await claims.freeStock(free);
        return erase(context, users, sources, cursor);
      }),
    deletions: (since) => during(() => deletions(context, since)),
    excluded: (...given) => during(() => excluded(context, ...given)),
    told: (...given) => during(() => told(context, ...given)),
    scrub: () => during(() => scrub(context)),
    hashKey: () => during(async () => context.suppressionKey),
    suppress: (users, sources, on) => during(() => suppress(context, users, sources, on)),
    check: (thorough) => (thorough ? during(() => check(db)) : Promise.resolve(null)),
    ping: () => soundly(async () => void (await db.run('SELECT 1'))),
    close() {
      closing ??= (async () => {
        await Promise.all(running);
        await db.close();
      })();
      return closing;
    },
  };
}
