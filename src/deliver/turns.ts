import type { Clock } from '../kernel/clock.ts';
import type { ClaimRequest } from '../store/port.ts';
import type { DestinationQueue } from './destination-queue.ts';

/** Limit of destinations in one claim. */
const REQUESTS_LIMIT = 128;
/** Limits, over all destinations, of deliveries in hand and of the characters of their bodies, if known. */
const HELD_LIMIT = 4_096;
const HELD_CHARACTERS = 16_000_000;
/** Beyond these, a destination may still have this many in hand, up to twice the limits over all. */
const RESERVED = 256;

/** A served destination, and the known state of its work in the store. */
interface Turn {
  readonly queue: DestinationQueue;
  /** Incremented with every hint of new work, so that one given during a claim is not lost. */
  hints: number;
  /** Claims made, per destination: with one count for all, the same few would always begin with retries. */
  claims: number;
  /** Deliveries claimed since the last claim that began with backfills. */
  claimed: number;
  /** True if the store may have something to claim. */
  wanted: boolean;
  /** Time of the next check by the steady clock; infinite without a timer. */
  timerAt: number;
  cancelTimer: (() => void) | null;
}

export interface PlannedClaim {
  readonly turn: Turn;
  readonly request: ClaimRequest;
  /** The turn's `hints` when the claim was planned. */
  readonly hints: number;
}

/** Chooses the destinations to claim for next: those with work and room, in turn. */
export class Turns {
  private readonly clock: Clock;
  private readonly onReady: () => void;
  private readonly turns = new Map<string, Turn>();
  private readonly ready = new Set<Turn>();
  /** True once no more work will be accepted. */
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

  /** Puts a destination in line if it has work and room now; otherwise schedules a check. */
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

  /** Notes that no more work will be accepted: gathered messages wait only for those still in the store. */
  complete(): void {
    this.isComplete = true;
    for (const name of this.turns.keys()) this.offer(name);
  }

  /** Schedules a check of a destination for when a delivery is due. */
  lookAt(name: string, at: number): void {
    const turn = this.turns.get(name);
    if (turn) this.setTimer(turn, at - this.clock.now());
  }

  /**
   * Returns the claims to make now; their destinations leave the line.
   *
   * @param unsettled - deliveries that have ended but are not written, and the characters of their bodies
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

  /** Ends the wait of gathering messages if they are most of those in hand, since no more can be claimed. */
  private hurry(held: number): void {
    const { queues } = this;
    if (2 * queues.reduce((sum, { gathered }) => sum + gathered, 0) < held) return;
    for (const queue of queues) queue.hurry();
  }

  /**
   * Applies the result of a claim.
   *
   * @param nextDue - when the destination's next retry is due, as far as the store knows
   */
  claimed({ turn, request, hints }: PlannedClaim, count: number, nextDue: number | null | undefined): void {
    turn.claimed += count;
    if (count < request.limit && turn.hints === hints) {
      turn.wanted = false;
      // Repeatedly failing deliveries are claimed in few, small claims.
      const soonest = request.retries === undefined ? 0 : VAIN_WAIT;
      if (nextDue !== null && nextDue !== undefined) this.setTimer(turn, Math.max(soonest, nextDue - this.clock.now()));
    }
    this.offer(request.destination);
  }

  /** Sets a destination's timer, unless an earlier one is set. */
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

/** One claim in this many begins with retries; fewer do while retries keep failing and other messages succeed. */
const RETRIES_TURN = 8;
const VAIN_RETRIES_TURN = 32;
/** One claim in this many begins with backfills, and takes at most the same share of all deliveries. */
const BACKFILLS_TURN = 8;
/** Limit of such retries in other claims, as a share of their size; and the wait for the next, in milliseconds. */
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

/** First tries go before retries, but some claims begin with retries or backfills, so that none starves. */
function orderOf(turn: Turn): ClaimRequest['order'] {
  turn.claims += 1;
  if (turn.queue.outlets.areClosed && turn.queue.outlets.probeUntried) return 'usual';
  // Probes alternate between retries and new messages: the failures may be the old messages' fault.
  if (turn.queue.outlets.areClosed) return turn.claims % 2 === 0 ? 'retries' : 'usual';
  if (turn.claims % (turn.queue.retriesAreVain ? VAIN_RETRIES_TURN : RETRIES_TURN) === 0) return 'retries';
  return turn.claims % BACKFILLS_TURN === BACKFILLS_TURN / 2 ? 'backfills' : 'usual';
}
