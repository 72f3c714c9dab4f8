import type { Clock } from '../../kernel/clock.ts';
import { DeliveryIds } from '../delivery-ids.ts';
import { LastWrite } from '../last-write.ts';
import { OwnOwners } from '../own-owners.ts';
import * as port from '../port.ts';
import { sharedPorts } from '../shared-ports.ts';
import { checkFile } from './check.ts';
import { fileLog } from './file-log.ts';
import { damaged, linked } from './files.ts';
import { claimOf } from './queue/claimed-rows.ts';
import type { Handed } from './queue/new-deliveries.ts';
import { PackedSettlements } from './thread/packed-settlements.ts';
import { StoreThread, type Thread } from './thread/store-thread.ts';
import type { ThreadData } from './thread/thread.ts';

interface SqliteOptions {
  /** A file, or `:memory:`. */
  readonly path: string;
  /** Untried deliveries per destination at most, without deletion notices. */
  readonly maxQueued: number;
  readonly clock: Clock;
  readonly events?: port.StoreEvents;
  /** Starts the thread that the database is open in; tests share threads. */
  readonly startThread?: (data: ThreadData) => Thread;
}

/**
 * Open the embedded store; create or migrate it if needed.
 *
 * @throws RollcallError `store_failed` when the file can't be opened, `store_outdated` when a newer Rollcall made it
 */
export async function openSqliteStore(options: SqliteOptions): Promise<port.Store> {
  const { maxQueued, clock, events = port.NO_EVENTS, startThread } = options;
  const path = linked(options.path);
  const { thread, store } = await StoreThread.open({ path, clock, events, start: startThread });
  const { time } = thread;
  const ids = new DeliveryIds(store);
  const own = new OwnOwners();
  const reading = () => ({ offset: time.offset, uptime: Math.round(clock.uptime()) });
  const lastWrite = new LastWrite(clock, () => thread.call('tryWrite', []));
  const accept = acceptBy(thread, ids, maxQueued);
  const { records, live } = sharedPorts((call) => thread.shared(call));
  return {
    ...records,
    id: store,
    live,
    time,
    maxQueued,
    accept: (request) => lastWrite.of(accept(request)),
    join: async (ttl) => {
      const owner = await thread.call('join', [ttl, own.owners, reading()]);
      own.add(owner);
      return owner;
    },
    heartbeat: (owner, ttl) => lastWrite.of(thread.call('heartbeat', [owner, ttl, reading()])),
    leave: (owner) => {
      own.delete(owner);
      return thread.call('leave', [owner, reading()]);
    },
    servedSince: () => thread.call('servedSince', []),
    rescue: () => thread.call('rescue', [own.owners]),
    begin: (owner, claims) => thread.call('begin', [owner, claims.map(({ id }) => ids.number(id))]),
    claim: async (owner, requests) => {
      const { claims, nextDue } = await thread.call('claim', [owner, requests]);
      return {
        claims: requests.map(({ destination }, place) =>
          (claims[place] ?? []).map((row) => claimOf(row, destination, ids)),
        ),
        nextDue,
      };
    },
    settle: (owner, settlements, keeps = false) =>
      lastWrite.of(
        thread.call('settle', [
          new PackedSettlements(owner, settlements, time.fromWall(0), (id) => ids.number(id), keeps),
        ]),
      ),
    expire: (...given) => thread.call('expire', given),
    restNotices: (...given) => thread.call('restNotices', given),
    bury: (...given) => thread.call('bury', given),
    requeue: async (destination, limit) => (await thread.call('requeue', [destination, maxQueued, limit])).count,
    replay: (...given) => thread.call('replay', given),
    deliverAgain: (...given) => thread.call('deliverAgain', given),
    resend: (...given) => thread.call('resend', given),
    drop: (...given) => thread.call('drop', given),
    erase: (...given) => thread.call('erase', given),
    prune: (...given) => thread.call('prune', given),
    events: fileLog(thread),
    scrub: () => thread.scrub(),
    examine: async () => [{ state: 'ok', message: `SQLite ${process.versions.sqlite}` }],
    clockAhead: async () => null,
    ping: async () => {
      lastWrite.check();
      await thread.call('ping', []);
    },
    check: async (thorough) => {
      const found = await checkFile(path, thorough);
      if (found !== null) thread.markDamaged(damaged(path, found));
      return found;
    },
    close: () => {
      lastWrite.close();
      return thread.close();
    },
  };
}

function acceptBy(thread: StoreThread, ids: DeliveryIds, maxQueued: number): port.Store['accept'] {
  const { time } = thread;
  return async (request) => {
    const { messages, step, live = null, logged = false, take = null } = request;
    const acceptedAt = time.now();
    const given = { messages, step, live, maxQueued, logged, take, ahead: time.fromWall(0) };
    const { handed, ...result } = await thread.call('accept', [given], messages.length);
    if (take === null) return result;
    return { ...result, claims: handed.map((each) => handedClaim(ids, request, acceptedAt, each)) };
  };
}

function handedClaim(
  ids: DeliveryIds,
  { messages, step }: port.AcceptRequest,
  acceptedAt: number,
  { message, destination, id }: Handed,
): port.Claim {
  const { source, messageId, type, userId, body, lane, conflict } = messages[message] as port.NewMessage;
  return {
    id: ids.name(id),
    ...{ destination, source, messageId, type, userId, body, lane, conflict },
    run: step?.run ?? null,
    tries: 0,
    acceptedAt,
    firstAt: null,
    marks: port.NO_MARKS,
    crashes: 0,
  };
}
