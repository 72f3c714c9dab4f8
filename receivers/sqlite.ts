import { createHash } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import { checkNumber } from './parse/numbers.ts';
import { SqliteFile } from './sqlite/file.ts';
import { Holds } from './sqlite/holds.ts';
import { KeptRequests } from './sqlite/inbox.ts';
import { InboxOwner } from './sqlite/owner.ts';
import { noLock, processLock } from './sqlite/process-lock.ts';
import type { Inbox, Opening } from './store.ts';

export interface SqliteStoreOptions {
  /** Milliseconds that handled requests are remembered (default one day; a sender repeats for hours). */
  keep?: number;
  /** Milliseconds until an unrenewed lease expires and another process may begin the request (default one minute). */
  lease?: number;
  now?: () => number;
}

/** A store in a file, shared by the processes of one machine; see {@link sqliteStore}. */
export interface SqliteStore extends Inbox {
  /**
   * Runs `work` in the transaction that marks the request as handled: both happen, once, or neither. Use it in the last
   * handler of a message: work after it is not repeated. `work` must be synchronous.
   *
   * @throws LeaseLost, with nothing written, when another process has begun the same request or a change of the same name
   */
  transaction<T>(request: { readonly opening: Opening | undefined }, work: (db: DatabaseSync) => T): T;
  close(): void;
}

/**
 * Remembers handled requests, and with `ack: 'stored'` the requests themselves, durably, in a SQLite file that only its
 * owner may read.
 *
 * @throws TypeError without a file, or when `keep` or `lease` is not a number
 */
export function sqliteStore(path: string, options: SqliteStoreOptions = {}): SqliteStore {
  // To SQLite the empty name means a temporary file.
  if (typeof path !== 'string' || path === '') throw new TypeError("give the file of the store, or ':memory:'");
  const { keep = 24 * 60 * 60 * 1000, lease = 60_000, now = Date.now } = options;
  checkNumber('keep', keep, true);
  checkNumber('lease', lease);
  const file = new SqliteFile(path);
  const holds = new Holds(file, { keep, lease, now });
  const requests = new KeptRequests(file, now);
  const owners = new Map<string, InboxOwner>();
  function ownerOf(receiver: string): InboxOwner {
    const known = owners.get(receiver);
    if (known !== undefined) return known;
    const lock = path === ':memory:' ? noLock : processLock(lockFile(path, receiver));
    const owner = new InboxOwner(file, { receiver, lock, lease, now });
    owners.set(receiver, owner);
    return owner;
  }
  return {
    lease,
    begin: (opening) => holds.begin(opening),
    renew: (opening) => holds.renew(opening),
    done: (opening) => holds.done(opening),
    release: (opening) => holds.release(opening),
    transaction: ({ opening }, work) => holds.transaction(opening, work),
    keep: (given) => requests.keep(given),
    own: (name, receiver) => ownerOf(receiver).own(name),
    disown: (name, receiver) => ownerOf(receiver).disown(name),
    due: (limit, working, receiver) => requests.due(limit, working, receiver),
    tried: (key) => requests.tried(key),
    tryAgain: (key, at) => requests.tryAgain(key, at),
    giveUp: (key, reason) => requests.giveUp(key, reason),
    givenUp: (limit) => requests.givenUp(limit),
    retry: (keys) => requests.retry(keys),
    close: () => file.db.close(),
  };
}

/** The lock file of a receiver, whose name may have characters that are not allowed in file names. */
function lockFile(path: string, receiver: string): string {
  if (receiver === '') return `${path}-owner`;
  return `${path}-owner-${createHash('sha256').update(receiver).digest('hex').slice(0, 16)}`;
}
