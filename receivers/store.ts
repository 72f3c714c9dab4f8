import type { Awaitable } from './after.ts';

/** The change of one user's membership or trait that a request brings: changes of one name are handled in the order of their sequence. */
export interface Change {
  /** Names receiver, secret, audience or trait, and user. */
  readonly name: string;
  readonly sequence: number;
}

/** A request that is about to be handled. */
export interface Opening {
  /** The same for every repetition of the request; undefined where nothing tells repetitions apart. */
  readonly key: string | undefined;
  readonly change: Change | undefined;
  /** Who handles it, different for every request: another can't end what this one began. */
  readonly holder: string;
}

/**
 * - `new`: it is this holder's now, until its lease ends
 * - `running`: another holder has the same request
 * - `busy`: another holder has a change of the same name
 * - `done`: it was handled before
 * - `stale`: a change of the same name with a higher sequence was handled before
 */
export type Opened = 'new' | 'running' | 'busy' | 'done' | 'stale';

/**
 * Remembers what was handled, for one process or for all that share it. Each verb is atomic: of two processes that begin
 * the same request, or changes of one name, one gets `new`.
 */
export interface ReceiverStore {
  /** Milliseconds that a request is held without being renewed: what a crashed process began can then be begun by others. */
  readonly lease: number;
  /** Begins to handle a request. */
  begin(opening: Opening): Awaitable<Opened>;
  /** Holds it for another lease; false when another holder has taken it. */
  renew(opening: Opening): Awaitable<boolean>;
  /**
   * Handled: from now on `begin` answers `done` to its repetitions and `stale` to older changes of the name. False, and
   * nothing moves back, when another holder has taken it.
   */
  done(opening: Opening): Awaitable<boolean>;
  /** Failed: from now on `begin` answers `new` again. Does nothing when another holder has taken it. */
  release(opening: Opening): Awaitable<void>;
}

/** Another holder has begun the same work: what this one would have written may be out of date. */
export class LeaseLost extends Error {
  override name = 'LeaseLost';
  override message = 'the lease ended while the handler worked, and another process has begun: nothing was written';
}

/** A request as it is kept with `ack: 'stored'`. */
export interface StoredRequest {
  readonly key: string;
  readonly body: Buffer;
  readonly url: string;
  readonly secret: number | undefined;
  /** Names the receiver and the sender that it was verified for. */
  readonly scope: string;
  /** Requests of one user are handled in the order in which they came. */
  readonly user: string | undefined;
}

/** A request in the store, and what was tried with it. */
export interface KeptRequest extends StoredRequest {
  readonly tries: number;
  /** How often a process that worked on it ended before it had done so. */
  readonly crashes: number;
}

/** A request that nothing is tried with any more. */
export interface GivenUpRequest extends KeptRequest {
  readonly reason: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** A store that keeps the requests themselves, which `ack: 'stored'` needs. One process at a time works on them. */
export interface Inbox extends ReceiverStore {
  /** Keeps requests, all or none, until they are done or given up; for each false when it is known already. */
  keep(requests: readonly StoredRequest[]): Awaitable<readonly boolean[]>;
  /**
   * Makes this process the one that works on what is kept, or prolongs that for a lease; false while another one is.
   * Whatever another one had begun counts a crash.
   */
  own(owner: string): Awaitable<boolean>;
  disown(owner: string): Awaitable<void>;
  /** What may be tried now, the oldest first: of each user one, if none of `working` is theirs. */
  due(limit: number, working: readonly string[]): Awaitable<readonly KeptRequest[]>;
  /** A try begins. It is counted first, so that one that ends the process counts too. */
  tried(key: string): Awaitable<void>;
  /** The try failed; the next one is not before `at`, in milliseconds since 1970. */
  tryAgain(key: string, at: number): Awaitable<void>;
  /** No further try: kept for a person to look at. */
  giveUp(key: string, reason: string): Awaitable<void>;
  /** What was given up, the oldest first. */
  givenUp(limit: number): Awaitable<readonly GivenUpRequest[]>;
  /** Has what was given up tried anew, all of it or that with these keys; resolves to their number. */
  retry(keys?: readonly string[]): Awaitable<number>;
}

/** A map that forgets its oldest entries beyond `max`; what is set again counts as new. */
function forgetfulMap<V>(max: number) {
  const entries = new Map<string, V>();
  let oldest: MapIterator<string> | undefined;
  return {
    get: (key: string) => entries.get(key),
    set(key: string, value: V): void {
      entries.delete(key);
      entries.set(key, value);
      if (entries.size <= max) return;
      // Always the same iterator: a new one would pass over all that was deleted, at each call.
      oldest ??= entries.keys();
      entries.delete(oldest.next().value as string);
    },
  };
}

interface Hold {
  holder: string;
  until: number;
}

/** Who has what: a hold that ran out is nobody's. */
class Holds {
  readonly #holds = new Map<string, Hold>();

  /** Whether another holder has it. */
  isTaken(name: string, holder: string, now: number): boolean {
    const hold = this.#holds.get(name);
    return hold !== undefined && hold.holder !== holder && hold.until > now;
  }

  take(name: string, holder: string, until: number): void {
    this.#holds.set(name, { holder, until });
  }

  /** Whether nobody has taken it since. */
  isHeldBy(name: string, holder: string): boolean {
    return this.#holds.get(name)?.holder === holder;
  }

  give(name: string, holder: string): void {
    if (this.isHeldBy(name, holder)) this.#holds.delete(name);
  }
}

/** Options of `memoryStore`. */
export interface MemoryStoreOptions {
  /** Entries kept of each kind (default 100,000, about 13 MB each); beyond that the oldest are forgotten. */
  max?: number;
  /** Milliseconds that a request is held without being renewed (default one minute). */
  lease?: number;
  now?: () => number;
}

/** Memory of one process: a restart forgets what was handled, and what the order of changes was. */
export function memoryStore({ max = 100_000, lease = 60_000, now = Date.now }: MemoryStoreOptions = {}): ReceiverStore {
  const handled = forgetfulMap<true>(max);
  const sequences = forgetfulMap<number>(max);
  const requests = new Holds();
  const changes = new Holds();

  const isOurs = ({ key, change, holder }: Opening) =>
    (key === undefined || requests.isHeldBy(key, holder)) &&
    (change === undefined || changes.isHeldBy(change.name, holder));

  function hold({ key, change, holder }: Opening, until: number): void {
    if (key !== undefined) requests.take(key, holder, until);
    if (change !== undefined) changes.take(change.name, holder, until);
  }

  function give({ key, change, holder }: Opening): void {
    if (key !== undefined) requests.give(key, holder);
    if (change !== undefined) changes.give(change.name, holder);
  }

  return {
    lease,
    begin(opening) {
      const { key, change, holder } = opening;
      const time = now();
      if (key !== undefined) {
        if (handled.get(key)) return 'done';
        if (requests.isTaken(key, holder, time)) return 'running';
      }
      if (change !== undefined) {
        if (change.sequence < (sequences.get(change.name) ?? 0)) return 'stale';
        if (changes.isTaken(change.name, holder, time)) return 'busy';
      }
      hold(opening, time + lease);
      return 'new';
    },
    renew(opening) {
      if (!isOurs(opening)) return false;
      hold(opening, now() + lease);
      return true;
    },
    done(opening) {
      const { key, change } = opening;
      const ours = isOurs(opening);
      if (ours && change !== undefined) sequences.set(change.name, change.sequence);
      if (ours && key !== undefined) handled.set(key, true);
      give(opening);
      return ours;
    },
    release: give,
  };
}
