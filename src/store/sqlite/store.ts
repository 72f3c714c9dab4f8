import type { Clock } from '../../kernel/clock.ts';
import { DeliveryIds } from '../delivery-ids.ts';
import { OwnOwners } from '../own-owners.ts';
import * as port from '../port.ts';
import { recordsBy } from '../records/records.ts';
import { checkFile } from './check.ts';
import { fileLog } from './file-log.ts';
import { damaged, linked } from './files.ts';
import { eachHanded, type PackedHanded } from './handed.ts';
import { unpackClaims } from './packed-claims.ts';
import { movable, pack } from './packed-messages.ts';
import { PackedSettlements } from './thread/packed-settlements.ts';
import { SmallAccepts } from './thread/small-accepts.ts';
import { StoreThread, type Thread } from './thread/store-thread.ts';
import type { ThreadData } from './thread/thread.ts';

interface SqliteOptions {
  /** A file, or `:memory:`. */
  readonly path: string;
  /** Undelivered messages per destination at most. */
  readonly maxQueued: number;
  readonly clock: Clock;
  readonly events?: port.StoreEvents;
  /** Starts the thread that the database is open in; tests share threads. */
  readonly startThread?: (data: ThreadData) => Thread;
}

/**
 * Opens (and if need be creates or migrates) the embedded store.
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
  const accept = acceptBy(thread, ids, maxQueued);
  return {
    ...recordsBy((verb, given) => thread.record(verb, given)),
    time,
    maxQueued,
    accept,
    join: async (ttl) => {
      const owner = await thread.call('join', [ttl, own.owners, reading()]);
      own.add(owner);
      return owner;
    },
    heartbeat: (owner, ttl) => thread.call('heartbeat', [owner, ttl, reading()]),
    leave: (owner) => {
      own.delete(owner);
      return thread.call('leave', [owner, reading()]);
    },
    servedSince: () => thread.call('servedSince', []),
    rescue: () => thread.call('rescue', [own.owners]),
    begin: (owner, claims) => thread.call('begin', [owner, claims.map(({ id }) => ids.number(id))]),
    claim: async (owner, requests) => {
      const { claims, nextDue } = await thread.call('claim', [owner, requests]);
      return { claims: unpackClaims(claims, requests, ids), nextDue };
    },
    settle: (owner, settlements, keeps = false) =>
      thread.call('settle', [
        new PackedSettlements(owner, settlements, time.fromWall(0), (id) => ids.number(id), keeps),
      ]),
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
    ping: async () => thread.call('ping', []),
    check: async (thorough) => {
      const found = await checkFile(path, thorough);
      if (found !== null) thread.markDamaged(damaged(path, found));
      return found;
    },
    close: () => thread.close(),
  };
}

function acceptBy(thread: StoreThread, ids: DeliveryIds, maxQueued: number): port.Store['accept'] {
  const { time } = thread;
  const small = {
    logged: new SmallAccepts(thread, maxQueued, true),
    unlogged: new SmallAccepts(thread, maxQueued, false),
  };
  const sent = (request: port.AcceptRequest) => {
    const { messages, step, live = null, logged = false, take = null } = request;
    if (SmallAccepts.isSmall(request)) return (logged ? small.logged : small.unlogged).add(request);
    const packed = pack(messages);
    const options = { movable: movable(packed), messages: messages.length };
    const ahead = time.fromWall(0);
    return thread.call('accept', [{ messages: packed, step, live, maxQueued, logged, take, ahead }], options);
  };
  const acceptAndTake = async (request: port.AcceptRequest) => {
    const acceptedAt = time.now();
    const { handed, ...result } = await sent(request);
    return { ...result, claims: handed === null ? [] : handedClaims(ids, request, acceptedAt, handed) };
  };
  // Only who takes deliveries needs the messages for longer.
  return (request) => (request.take ? acceptAndTake(request) : sent(request).then(resultOf));
}

const resultOf = ({ accepted, duplicates, suppressed }: port.AcceptResult): port.AcceptResult => ({
  accepted,
  duplicates,
  suppressed,
});

function handedClaims(
  ids: DeliveryIds,
  { messages, step }: port.AcceptRequest,
  acceptedAt: number,
  handed: PackedHanded,
): port.Claim[] {
  return eachHanded(handed, (place, destination, id) => {
    const { source, messageId, type, userId, body, lane, conflict } = messages[place] as port.NewMessage;
    const message = { destination, source, messageId, type, userId, body, lane, conflict };
    return {
      id: ids.name(id),
      ...message,
      run: step?.run ?? null,
      tries: 0,
      acceptedAt,
      firstAt: null,
      marks: port.NO_MARKS,
      crashes: 0,
    };
  });
}
