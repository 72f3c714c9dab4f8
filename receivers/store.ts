import type { Awaitable } from './core/after.ts';
import type { ComputedCalls, Parsed } from './parse/messages.ts';
import { checkNumber } from './parse/numbers.ts';

/** The change of one user's membership or trait that a request brings: changes of one name are handled in the order of their sequence. */
export interface Change {
  /** Names receiver, secret, audience or trait, and user. */
  readonly name: string;
  readonly sequence: number;
}

/** The change that a call brings; `scope` names receiver and sender, so that no other can get before it. */
export function changeOf(computed: ComputedCalls | undefined, scope: string): Change | undefined {
  if (computed?.sequence === undefined) return undefined;
  const { kind, id, userId, sequence } = computed;
  return { name: JSON.stringify([scope, kind, id, userId]), sequence };
}

/** A user who was deleted. */
export interface Deleted {
  /** Of their changes and stored requests; one that ends with `|` stands for those of all senders. */
  readonly scope: string;
  readonly userId: string;
}

/** The user whom a deletion notice names. */
export function deletedBy(parsed: Parsed, scope: string): Deleted | undefined {
  if (!parsed.ok || !parsed.known || parsed.message.type !== 'delete') return undefined;
  return { scope, userId: parsed.message.userId };
}

/** Whether what has this scope is meant by the other one. */
export const isWithin = (scope: string, other: string): boolean =>
  scope === other || (other.endsWith('|') && scope.slice(0, scope.lastIndexOf('|') + 1) === other);

/** Whether a change of this name is one of the user. */
export function isChangeOf(name: string, { scope, userId }: Deleted): boolean {
  try {
    const [of, , , user]: unknown[] = JSON.parse(name);
    return typeof of === 'string' && user === userId && isWithin(of, scope);
  } catch {
    return false;
  }
}

/** A request that is about to be handled. */
export interface Opening {
  /** The same for every repetition of the request; undefined where nothing tells repetitions apart. */
  readonly key: string | undefined;
  readonly change: Change | undefined;
  /** The holder, different for every request: another can't end what this one began. */
  readonly holder: string;
  /**
   * Of a deletion notice. Once it is handled, what the store knows of the user can go when nothing older can come any more:
   * the order of the user's changes has to outlast those that are on their way.
   */
  readonly deletes?: Deleted | undefined;
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
  /** Names the receiver and the sender that it was verified for: the one's `name`, `|`, and what has no `|`. */
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

/** A store that keeps the requests themselves, which `ack: 'stored'` needs. One process at a time works on those of a receiver. */
export interface Inbox extends ReceiverStore {
  /** Keeps requests, all or none, until they are done or given up; for each false when it is known already. */
  keep(requests: readonly StoredRequest[]): Awaitable<readonly boolean[]>;
  /**
   * Makes this process the one that works on what is kept for a receiver, or prolongs that for a lease; false while another
   * one is. Requests of it that another one had begun count a crash.
   */
  own(owner: string, receiver: string): Awaitable<boolean>;
  disown(owner: string, receiver: string): Awaitable<void>;
  /** Requests of a receiver that may be tried now, the oldest first: one of each user, if none of `working` is theirs. */
  due(limit: number, working: readonly string[], receiver: string): Awaitable<readonly KeptRequest[]>;
  /** A try begins. It is counted first, so that one that ends the process counts too. */
  tried(key: string): Awaitable<void>;
  /** The try failed; the next one is not before `at`, in milliseconds since 1970. */
  tryAgain(key: string, at: number): Awaitable<void>;
  /** No further try: kept for a person to look at. */
  giveUp(key: string, reason: string): Awaitable<void>;
  /** Requests that were given up, the oldest first. */
  givenUp(limit: number): Awaitable<readonly GivenUpRequest[]>;
  /** Has what was given up tried anew, all of it or that with these keys; resolves to their number. */
  retry(keys?: readonly string[]): Awaitable<number>;
}

/** The holder of a name, and what was known of it before. */
class Hold<V> {
  readonly holder: string;
  readonly until: number;
  readonly before: V | undefined;

  constructor(holder: string, until: number, before: V | undefined) {
    this.holder = holder;
    this.until = until;
    this.before = before;
  }
}

/** States by name, with who holds them; a hold that ran out is nobody's. Forgets the oldest beyond `max`. */
class Memory<V extends number | boolean> {
  readonly #states = new Map<string, V | Hold<V>>();
  readonly #max: number;
  #oldest: MapIterator<[string, V | Hold<V>]> | undefined;

  constructor(max: number) {
    this.#max = max;
  }

  get(name: string): V | Hold<V> | undefined {
    return this.#states.get(name);
  }

  /** Takes the name, whoever had it; what is taken again counts as new. */
  take(name: string, state: V | Hold<V> | undefined, holder: string, now: number, lease: number): void {
    if (state !== undefined) this.#states.delete(name);
    this.#states.set(name, new Hold(holder, now + lease, known(state)));
  }

  isHeldBy(name: string, holder: string): boolean {
    const state = this.#states.get(name);
    return state instanceof Hold && state.holder === holder;
  }

  /** Ends a hold: `value` is what is known from now on. */
  set(name: string, value: V): void {
    this.#states.set(name, value);
    if (this.#states.size > this.#max) this.#forget();
  }

  /** Ends a hold of this holder: what was known before is known again. */
  give(name: string, holder: string): void {
    const state = this.#states.get(name);
    if (!(state instanceof Hold) || state.holder !== holder) return;
    if (state.before === undefined) this.#states.delete(name);
    else this.#states.set(name, state.before);
  }

  #forget(): void {
    // Always the same iterator: a new one would pass over all that was deleted, at each call.
    this.#oldest ??= this.#states.entries();
    for (let looks = this.#states.size; looks > 0 && this.#states.size > this.#max; looks -= 1) {
      const [name, state] = this.#oldest.next().value as [string, V | Hold<V>];
      this.#states.delete(name);
      // Names at work are not forgotten: they would be begun twice.
      if (state instanceof Hold) this.#states.set(name, state);
    }
  }
}

const known = <V>(state: V | Hold<V> | undefined): V | undefined => (state instanceof Hold ? state.before : state);

const isTaken = <V>(state: V | Hold<V> | undefined, holder: string, now: number): boolean =>
  state instanceof Hold && state.holder !== holder && state.until > now;

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
  checkNumber('lease', lease);
  const handled = new Memory<true>(max);
  const sequences = new Memory<number>(max);

  const isOurs = ({ key, change, holder }: Opening) =>
    (key === undefined || handled.isHeldBy(key, holder)) &&
    (change === undefined || sequences.isHeldBy(change.name, holder));

  function give({ key, change, holder }: Opening): void {
    if (key !== undefined) handled.give(key, holder);
    if (change !== undefined) sequences.give(change.name, holder);
  }

  return {
    lease,
    begin({ key, change, holder }) {
      const time = now();
      const request = key === undefined ? undefined : handled.get(key);
      if (request === true) return 'done';
      if (isTaken(request, holder, time)) return 'running';
      if (change !== undefined) {
        const state = sequences.get(change.name);
        if (change.sequence < (known(state) ?? 0)) return 'stale';
        if (isTaken(state, holder, time)) return 'busy';
        sequences.take(change.name, state, holder, time, lease);
      }
      if (key !== undefined) handled.take(key, request, holder, time, lease);
      return 'new';
    },
    renew(opening) {
      if (!isOurs(opening)) return false;
      const { key, change, holder } = opening;
      const time = now();
      if (key !== undefined) handled.take(key, handled.get(key), holder, time, lease);
      if (change !== undefined) sequences.take(change.name, sequences.get(change.name), holder, time, lease);
      return true;
    },
    done(opening) {
      const { key, change } = opening;
      if (!isOurs(opening)) {
        give(opening);
        return false;
      }
      if (change !== undefined) sequences.set(change.name, change.sequence);
      if (key !== undefined) handled.set(key, true);
      return true;
    },
    release: give,
  };
}
