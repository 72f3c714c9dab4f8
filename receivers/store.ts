import type { Awaitable } from './core/after.ts';
import type { ComputedCalls, Parsed } from './parse/messages.ts';
import { checkNumber } from './parse/numbers.ts';

/** A change of one user's membership or trait. Changes of one name are handled in the order of their sequence. */
export interface Change {
  /** Identifies receiver, secret, audience or trait, and user. */
  readonly name: string;
  readonly sequence: number;
}

/**
 * The change that a call contains. `scope` identifies receiver and sender, so that no other sender can supersede it.
 *
 * @param isHandled - true if one handler takes the change from either form, and so only once
 */
export function changeOf(
  { form, kind, id, userId, sequence }: ComputedCalls,
  scope: string,
  isHandled: boolean,
): Change | undefined {
  if (sequence === undefined) return undefined;
  const name = [scope, kind, id, userId];
  return { name: JSON.stringify(isHandled || form === 'identify' ? name : [...name, form]), sequence };
}

/** A user who was deleted. */
export interface Deleted {
  /** The scope of their changes and stored requests. One that ends with `|` stands for those of all senders. */
  readonly scope: string;
  readonly userId: string;
}

/** The user named by a deletion notice. */
export function deletedBy(parsed: Parsed, scope: string): Deleted | undefined {
  if (!parsed.ok || !parsed.known || parsed.message.type !== 'delete') return undefined;
  return { scope, userId: parsed.message.userId };
}

/** True if `other` is the same scope, or stands for all senders of this receiver. */
export const isWithin = (scope: string, other: string): boolean =>
  scope === other || (other.endsWith('|') && scope.slice(0, scope.lastIndexOf('|') + 1) === other);

/** True if a change of this name is about the user. */
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
  /** The same for every repetition of the request; undefined if nothing identifies repetitions. */
  readonly key: string | undefined;
  /** Other keys of the same request, which the receiver begins and ends in openings of their own. */
  readonly otherKeys?: readonly string[] | undefined;
  readonly change: Change | undefined;
  /** The holder, unique per request: no other can end what this one began. */
  readonly holder: string;
  /**
   * Set for a deletion notice. Once it is handled, the store forgets the user, but keeps the order of the user's changes
   * until no older change can arrive any more.
   */
  readonly deletes?: Deleted | undefined;
}

/**
 * - `new`: this holder has it now, until its lease ends
 * - `running`: another holder has the same request
 * - `busy`: another holder has a change of the same name
 * - `done`: it, or a change of the same name and sequence, was handled before
 * - `stale`: a change of the same name with a higher sequence was handled before
 */
export type Opened = 'new' | 'running' | 'busy' | 'done' | 'stale';

/**
 * Remembers handled requests, for one process or for all that share it. Each method is atomic: if two processes begin the
 * same request, or changes of one name, only one gets `new`.
 */
export interface ReceiverStore {
  /** Milliseconds until an unrenewed lease expires: others can then begin the requests of a crashed process. */
  readonly lease: number;
  begin(opening: Opening): Awaitable<Opened>;
  /** Renews the lease; false if another holder has taken the request. */
  renew(opening: Opening): Awaitable<boolean>;
  /**
   * Marks it as handled: from now on `begin` answers `done` to its repetitions and `stale` to older changes of the name.
   * False, without going back to an older change, if another holder has taken it.
   */
  done(opening: Opening): Awaitable<boolean>;
  /** Releases it after a failure, so that `begin` answers `new` again. Does nothing if another holder has taken it. */
  release(opening: Opening): Awaitable<void>;
}

/** Another holder has begun the same work, so the writes of this one might be stale. */
export class LeaseLost extends Error {
  override name = 'LeaseLost';
  override message = 'the lease ended while the handler worked, and another process has begun: nothing was written';
}

/** A request stored with `ack: 'stored'`. */
export interface StoredRequest {
  readonly key: string;
  /** Other keys of the same request; not for the store. */
  readonly otherKeys?: readonly string[] | undefined;
  readonly body: Buffer;
  readonly url: string;
  readonly secret: number | undefined;
  /** Identifies receiver and sender: the receiver's `name`, `|`, and the sender, which has no `|`. */
  readonly scope: string;
  /** Requests of one user are handled in the order of their arrival. */
  readonly user: string | undefined;
}

/** A request in the store, with its tries. */
export interface KeptRequest extends StoredRequest {
  readonly tries: number;
  /** Processes that ended while they worked on it. */
  readonly crashes: number;
}

/** A request that is not tried any more. */
export interface GivenUpRequest extends KeptRequest {
  readonly reason: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** A store that keeps the requests themselves, for `ack: 'stored'`. One process at a time works on those of a receiver. */
export interface Inbox extends ReceiverStore {
  /** Stores requests, all or none, until they are done or given up. Returns for each false if it was known already. */
  keep(requests: readonly StoredRequest[]): Awaitable<readonly boolean[]>;
  /**
   * Makes this process the owner of a receiver's stored requests, or renews that for a lease; false while another one is
   * the owner. Requests that a former owner had begun count a crash.
   */
  own(owner: string, receiver: string): Awaitable<boolean>;
  disown(owner: string, receiver: string): Awaitable<void>;
  /** Requests of a receiver that are due, oldest first: one per user, and none of users in `working`. */
  due(limit: number, working: readonly string[], receiver: string): Awaitable<readonly KeptRequest[]>;
  /** Counts a try at its beginning, so that one that ends the process counts too. */
  tried(key: string): Awaitable<void>;
  /** Schedules the next try, not before `at`, in milliseconds since 1970. */
  tryAgain(key: string, at: number): Awaitable<void>;
  /** Ends the tries. The request is kept for a person to inspect. */
  giveUp(key: string, reason: string): Awaitable<void>;
  /** Requests that were given up, oldest first. */
  givenUp(limit: number): Awaitable<readonly GivenUpRequest[]>;
  /** Retries requests that were given up, all or those with these keys. Resolves to their number. */
  retry(keys?: readonly string[]): Awaitable<number>;
}

/** The holder of a name, and its state before the hold. */
interface Hold<V> {
  readonly holder: string;
  readonly until: number;
  readonly before: V | undefined;
}

type State<V extends number | boolean> = V | Hold<V> | undefined;

const isHold = <V extends number | boolean>(state: State<V>): state is Hold<V> => typeof state === 'object';

const known = <V extends number | boolean>(state: State<V>): V | undefined => (isHold(state) ? state.before : state);

const isTaken = <V extends number | boolean>(state: State<V>, holder: string, now: number): boolean =>
  isHold(state) && state.holder !== holder && state.until > now;

/** States and holders by name. Expired holds do not count. Forgets the oldest beyond `max`. */
class Memory<V extends number | boolean> {
  readonly #states = new Map<string, V | Hold<V>>();
  readonly #max: number;
  #oldest: MapIterator<[string, V | Hold<V>]> | undefined;

  constructor(max: number) {
    this.#max = max;
  }

  get(name: string): State<V> {
    return this.#states.get(name);
  }

  /** Gives the name to a holder, replacing any other. A name taken again counts as the newest. */
  take(name: string, state: State<V>, holder: string, until: number): void {
    if (state !== undefined) this.#states.delete(name);
    this.#states.set(name, { holder, until, before: known(state) });
  }

  /** The hold of this holder. */
  holdOf(name: string, holder: string): Hold<V> | undefined {
    const state = this.#states.get(name);
    return isHold(state) && state.holder === holder ? state : undefined;
  }

  /** Ends a hold with a new value. */
  set(name: string, value: V): void {
    this.#states.set(name, value);
    if (this.#states.size > this.#max) this.#forget();
  }

  /** Ends this holder's hold and restores the former value. */
  give(name: string, holder: string): void {
    const hold = this.holdOf(name, holder);
    if (hold?.before !== undefined) this.#states.set(name, hold.before);
    else if (hold !== undefined) this.#states.delete(name);
  }

  #forget(): void {
    // Always the same iterator: a new one would step over all deleted entries at each call.
    this.#oldest ??= this.#states.entries();
    for (let looks = this.#states.size; looks > 0 && this.#states.size > this.#max; looks -= 1) {
      const [name, state] = this.#oldest.next().value as [string, V | Hold<V>];
      this.#states.delete(name);
      // Held names are not forgotten: they would be begun twice.
      if (isHold(state)) this.#states.set(name, state);
    }
  }
}

/** Options of `memoryStore`. */
export interface MemoryStoreOptions {
  /** The most entries of each kind (default 100,000, about 13 MB each). Beyond that the oldest are forgotten. */
  max?: number;
  /** Milliseconds until an unrenewed lease expires (default one minute). */
  lease?: number;
  now?: () => number;
}

/** A store in the memory of one process. A restart forgets handled requests and the order of changes. */
export function memoryStore({ max = 100_000, lease = 60_000, now = Date.now }: MemoryStoreOptions = {}): ReceiverStore {
  checkNumber('lease', lease);
  const handled = new Memory<true>(max);
  const sequences = new Memory<number>(max);

  const isOurs = ({ key, change, holder }: Opening) =>
    (key === undefined || handled.holdOf(key, holder) !== undefined) &&
    (change === undefined || sequences.holdOf(change.name, holder) !== undefined);

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
        const last = known(state) ?? -1;
        if (change.sequence <= last) return change.sequence < last ? 'stale' : 'done';
        if (isTaken(state, holder, time)) return 'busy';
        sequences.take(change.name, state, holder, time + lease);
      }
      if (key !== undefined) handled.take(key, request, holder, time + lease);
      return 'new';
    },
    renew(opening) {
      if (!isOurs(opening)) return false;
      const { key, change, holder } = opening;
      const until = now() + lease;
      if (key !== undefined) handled.take(key, handled.get(key), holder, until);
      if (change !== undefined) sequences.take(change.name, sequences.get(change.name), holder, until);
      return true;
    },
    done(opening) {
      const ours = isOurs(opening);
      if (!ours) give(opening);
      else {
        const { key, change } = opening;
        if (change !== undefined) sequences.set(change.name, change.sequence);
        if (key !== undefined) handled.set(key, true);
      }
      return ours;
    },
    release: give,
  };
}
