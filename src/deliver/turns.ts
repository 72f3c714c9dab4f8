import type { Clock } from '../kernel/clock.ts';
import type { ClaimRequest } from '../store/port.ts';
import type { DestinationQueue } from './destination-queue.ts';

/** Destinations asked for in one claim. */
const REQUESTS_LIMIT = 128;
/** Deliveries in hand at most, over all destinations, and the characters of their bodies, as far as these are known before. */
const HELD_LIMIT = 4_096;
const HELD_CHARACTERS = 16_000_000;
/** Once that is reached, a destination may have so many in hand all the same, up to twice the limits over all. */
const RESERVED = 256;

/** A destination that is served, and what is known of its work in the store. */
interface Turn {
  readonly queue: DestinationQueue;
  /** Rises with every hint of new work, so that one that comes during a claim is not lost. */
  hints: number;
  /** Claims made, counted per destination: with one count for all, the same few would always get the turn for retries. */
  claims: number;
  /** Deliveries claimed since the last claim that began with backfills. */
  claimed: number;
  /** Whether the store may have something to claim. */
  wanted: boolean;
  /** When it is looked at anew, by the steady clock; infinite without a timer. */
  timerAt: number;
  cancelTimer: (() => void) | null;
}

/** A claim that is to be made. */
export interface PlannedClaim {
  readonly turn: Turn;
  readonly request: ClaimRequest;
  /** The hints that there were of its destination's work. */
  readonly hints: number;
}

/** Which destinations are claimed for next: those with work and room, in turn. */
export class Turns {
  private readonly clock: Clock;
  private readonly onReady: () => void;
  private readonly turns = new Map<string, Turn>();
  private readonly ready = new Set<Turn>();
  /** Whether the store has all that is to come. */
  private isComplete = false;

  /** @param onReady - called when there may be something to claim */
  constructor(clock: Clock, onReady: () => void) {
    this.clock = clock;
    this.onReady = onReady;
  }

  get names(): Iterable<string> {
    return this.turns.keys();
  }

  get queues(): DestinationQueue[] {
    return [...this.turns.values()].map(({ queue }) => queue);
  }

  queue(name: string): DestinationQueue | undefined {
    return this.turns.get(name)?.queue;
  }

  has(turn: Turn): boolean {
    return this.turns.get(turn.queue.name) === turn;
  }

  add(queue: DestinationQueue): void {
    const timer = { timerAt: Number.POSITIVE_INFINITY, cancelTimer: null };
    this.turns.set(queue.name, { queue, hints: 0, claims: 0, claimed: 0, wanted: true, ...timer });
  }

  remove(name: string): void {
    const turn = this.turns.get(name);
    if (!turn) return;
    turn.cancelTimer?.();
    this.turns.delete(name);
    this.ready.delete(turn);
  }

  /** Says that these destinations have new work. */
  wake(names: Iterable<string>): void {
    for (const name of names) {
      const turn = this.turns.get(name);
      if (!turn) continue;
      turn.hints += 1;
      turn.wanted = true;
      this.ready.add(turn);
    }
    this.onReady();
  }

  /** Puts a destination in line if it has work and room now, else sees to it that it is looked at in time. */
  offer(name: string): void {
    const turn = this.turns.get(name);
    if (turn === undefined) return;
    if (!turn.wanted) {
      if (this.isComplete) turn.queue.hurry();
      return;
    }
    if (turn.queue.room() > 0) {
      this.ready.add(turn);
      this.onReady();
      return;
    }
    const delay = turn.queue.nextRoomIn();
    if (delay !== null) this.setTimer(turn, delay);
  }

  /** Says that nothing more is to come: what has gathered waits only for what the store still has. */
  complete(): void {
    this.isComplete = true;
    for (const name of this.turns.keys()) this.offer(name);
  }

  /** Has a destination looked at when something of it is due. */
  lookAt(name: string, at: number): void {
    const turn = this.turns.get(name);
    if (turn) this.setTimer(turn, at - this.clock.now());
  }

  /**
   * The claims to make now; those destinations leave the line.
   *
   * @param unsettled - deliveries that have ended and are not written yet, and the characters of their bodies
   */
  next(unsettled: { readonly size: number; readonly characters: number }): PlannedClaim[] {
    const planned: PlannedClaim[] = [];
    if (this.ready.size === 0) return planned;
    let { size: held, characters } = unsettled;
    for (const { queue } of this.turns.values()) {
      held += queue.held;
      characters += queue.heldCharacters;
    }
    let isKeptOut = false;
    for (const turn of this.ready) {
      if (planned.length >= REQUESTS_LIMIT) break;
      const { queue, hints } = turn;
      const isFull = held >= HELD_LIMIT || characters >= HELD_CHARACTERS;
      const times = isFull ? 2 : 1;
      const most = Math.min(times * HELD_LIMIT - held, isFull ? RESERVED - queue.held : HELD_LIMIT);
      const fitting = Math.ceil((times * HELD_CHARACTERS - characters) / queue.usualCharacters);
      if (most <= 0 || fitting <= 0) {
        isKeptOut = true;
        continue;
      }
      this.ready.delete(turn);
      const limit = Math.min(queue.room(), most, fitting);
      if (limit <= 0) {
        this.offer(queue.name);
        continue;
      }
      held += limit;
      characters += limit * queue.usualCharacters;
      queue.claiming();
      planned.push({ turn, hints, request: requestOf(turn, limit) });
    }
    if (isKeptOut) this.hurry(held);
    return planned;
  }

  /** Where most of what is in hand waits for more to go in one request with, no more can come: it waits no longer. */
  private hurry(held: number): void {
    const { queues } = this;
    if (2 * queues.reduce((sum, { gathered }) => sum + gathered, 0) < held) return;
    for (const queue of queues) queue.hurry();
  }

  /**
   * Says what a claim gave.
   *
   * @param nextDue - when the destination's next retry is due, as far as the store knows
   */
  claimed({ turn, request, hints }: PlannedClaim, count: number, nextDue: number | null | undefined): void {
    turn.claimed += count;
    if (count < request.limit && turn.hints === hints) {
      turn.wanted = false;
      // Deliveries that keep failing are claimed in few, small claims.
      const soonest = request.retries === undefined ? 0 : VAIN_WAIT;
      if (nextDue !== null && nextDue !== undefined) this.setTimer(turn, Math.max(soonest, nextDue - this.clock.now()));
    }
    this.offer(request.destination);
  }

  /** Sets the timer of a destination, unless it is looked at before anyway. */
  private setTimer(turn: Turn, wanted: number): void {
    // Node fires timers of more than 24.8 days at once.
    const delay = Math.min(Math.max(1, wanted), 3_600_000);
    const at = this.clock.monotonic() + delay;
    if (turn.timerAt <= at) return;
    turn.cancelTimer?.();
    turn.timerAt = at;
    turn.cancelTimer = this.clock.after(delay, () => {
      turn.timerAt = Number.POSITIVE_INFINITY;
      turn.cancelTimer = null;
      turn.wanted = true;
      this.offer(turn.queue.name);
    });
  }
}

/** One claim in this many begins with retries; fewer do while retries keep failing where other messages are taken. */
const RETRIES_TURN = 8;
const VAIN_RETRIES_TURN = 32;
/** One claim in this many begins with backfills, and brings at most the same part of all deliveries. */
const BACKFILLS_TURN = 8;
/** Of the latter, other claims take such a part of their size at most; and how long they wait for the next, in milliseconds. */
const VAIN_SHARE = 1 / 32;
const VAIN_WAIT = 100;

function requestOf(turn: Turn, limit: number): ClaimRequest {
  const order = orderOf(turn);
  if (order === 'backfills') {
    // Claims differ in size: a large one would give backfills more than their share.
    const share = Math.ceil(turn.claimed / (BACKFILLS_TURN - 1));
    turn.claimed = 0;
    return { destination: turn.queue.name, limit: Math.max(1, Math.min(limit, share)), order };
  }
  const request = { destination: turn.queue.name, limit, order };
  if (order === 'retries' || !turn.queue.retriesAreVain) return request;
  return { ...request, retries: Math.ceil(limit * VAIN_SHARE) };
}

/** First tries before retries, but some claims begin with retries, and one in eight with backfills, so that none starves. */
function orderOf(turn: Turn): ClaimRequest['order'] {
  turn.claims += 1;
  if (turn.queue.outlets.areClosed && turn.queue.outlets.probeUntried) return 'usual';
  // Probes alternate between messages that were tried before and new ones: the failures may be the old messages' fault.
  if (turn.queue.outlets.areClosed) return turn.claims % 2 === 0 ? 'retries' : 'usual';
  if (turn.claims % (turn.queue.retriesAreVain ? VAIN_RETRIES_TURN : RETRIES_TURN) === 0) return 'retries';
  return turn.claims % BACKFILLS_TURN === BACKFILLS_TURN / 2 ? 'backfills' : 'usual';
}
