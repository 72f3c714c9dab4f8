import type { Clock } from '../kernel/clock.ts';
import { type Claim, type ClaimRequest, type ClaimResult, LANES, type Settlement } from '../store/port.ts';

/*
 * Claimed deliveries that wait in this process for room in a queue.
 *
 * Each destination has a shelf in one of two modes, depending on the last claim from the store:
 *
 * - drained: the store had less than requested. Newly accepted deliveries may then be claimed by the accept itself
 *   (`reserve` before it, `accepted` after it), which saves writing and reading them again. For `BELIEF` milliseconds the
 *   store is not asked at all, unless something is known to be due sooner.
 * - not drained: older deliveries wait in the store, and newly accepted ones must queue behind them there. So nothing is
 *   reserved, and a claim requests more than the worker wants (`AHEAD`).
 *
 * A shelf leaves the drained mode when an accept had to leave something in the store (`left`), and enters it when a
 * claim returns fewer than requested (`looked`). `settled` makes the store worth asking again: something was released, or
 * a newer change superseded an older one.
 *
 * A shelf holds at most twice what the worker took in the last second, so that other processes get their share. Claims
 * that the worker has not requested in `STALE` milliseconds are released (`clearStale`), and all of them when the lease
 * is lost or the destination changes (`clear`).
 */

/** Limits of claims in stock, over all destinations, and of the characters of their bodies. */
const LIMIT = 8_000;
const LIMIT_CHARACTERS = 16_000_000;
/** Milliseconds: a destination's stock is at most twice what the worker took in the last such span. */
const SPAN = 1_000;
/** Rows claimed at a time beyond the worker's request. */
const AHEAD = 1_000;
/** Milliseconds for which a drained store is assumed to have nothing ready. */
const BELIEF = 200;
/** Milliseconds without a request from the worker after which stock is stale. */
const STALE = 5_000;

const NOTHING: ClaimResult = { claims: [], nextDue: new Map() };

interface Shelf {
  readonly lanes: readonly Claim[][];
  size: number;
  /** Promised to running accepts. */
  promised: number;
  /** Deliveries that the last claim requested and did not get. */
  wanted: number;
  /** Taken in this span and in the previous one. */
  taken: number;
  takenBefore: number;
  spanFrom: number;
  askedAt: number;
  /** True if the store returned less than requested, the last time. */
  drained: boolean;
  lookedAt: number;
  nextDue: number | null;
}

/**
 * Deliveries that this process has claimed and no queue has room for yet. Some were claimed along with others, as a
 * claim of hundreds costs little more than one of ten. Others were claimed on acceptance, which saves writing and
 * reading them again. Both are capped by the worker's pace, so that other processes get their share, and nothing
 * overtakes older deliveries.
 */
export class Stock {
  /** Owner of the claims; null while the process has no lease. */
  readonly owner: number | null;
  private readonly clock: Clock;
  private readonly shelves = new Map<string, Shelf>();
  private size = 0;
  private characters = 0;

  /** @param clock - in store time */
  constructor(clock: Clock, owner: number | null) {
    this.owner = owner;
    this.clock = clock;
  }

  /** Promises room, if there is any, for these numbers of deliveries that are about to be accepted. */
  reserve(counts: ReadonlyMap<string, number>): ReadonlyMap<string, number> {
    const room = new Map<string, number>();
    for (const [destination, count] of counts) {
      const shelf = this.shelves.get(destination);
      if (!shelf?.drained) continue;
      const free = this.roomOn(shelf, Math.max(shelf.wanted, this.pace(shelf))) - shelf.promised;
      if (free <= 0) continue;
      const promised = Math.min(count, free);
      shelf.promised += promised;
      room.set(destination, promised);
    }
    return room;
  }

  /**
   * Ends a promise.
   *
   * @param claims - claimed on acceptance
   */
  accepted(counts: ReadonlyMap<string, number>, room: ReadonlyMap<string, number>, claims: readonly Claim[]): void {
    for (const [destination, promised] of room) this.shelfOf(destination).promised -= promised;
    const given = new Map<string, number>();
    for (const { destination } of claims) given.set(destination, (given.get(destination) ?? 0) + 1);
    for (const [destination, count] of counts) if (given.get(destination) !== count) this.left(destination);
    this.add(claims);
  }

  /**
   * Serves a claim from stock, and from the store if worthwhile.
   *
   * @param claim - claims from the store
   */
  async serve(
    requests: readonly ClaimRequest[],
    claim: (requests: readonly ClaimRequest[]) => Promise<ClaimResult>,
  ): Promise<ClaimResult> {
    const places: number[] = [];
    const looks: ClaimRequest[] = [];
    for (const [place, request] of requests.entries()) {
      const limit = this.quota(request);
      if (limit > 0) looks.push({ ...request, limit });
      places[place] = limit > 0 ? looks.length - 1 : -1;
    }
    const found: ClaimResult = looks.length > 0 ? await claim(looks) : NOTHING;
    for (const [look, { destination, limit }] of looks.entries()) {
      this.looked(destination, found.claims[look]?.length ?? 0, limit, found.nextDue.get(destination) ?? null);
    }
    const nextDue = new Map<string, number | null>();
    const claims = requests.map(({ destination, limit, order }, place) => {
      const look = places[place] ?? -1;
      const fresh = found.claims[look] ?? [];
      if (order === 'usual') this.add(fresh);
      const taken = this.take(destination, limit, order === 'usual' ? [] : fresh);
      const due = look === -1 ? this.lookAt(destination) : (found.nextDue.get(destination) ?? null);
      if (taken.length < limit) nextDue.set(destination, due);
      return taken;
    });
    return { claims, nextDue };
  }

  /** Looks again for released or superseded deliveries. */
  settled(settlements: readonly Settlement[]): void {
    for (const { claim, verdict } of settlements) {
      const dueAt = verdict.kind === 'retry' || verdict.kind === 'release' ? verdict.dueAt : undefined;
      if (dueAt === null || claim.conflict !== null) this.stir(claim.destination);
      else if (dueAt !== undefined) this.expect(claim.destination, dueAt);
    }
  }

  /** Number to request from the store; 0 while it is not worth asking. */
  private quota({ destination, limit, order }: ClaimRequest): number {
    const shelf = this.shelves.get(destination);
    if (!shelf) return limit;
    if (shelf.size > 0 && this.believedEmpty(shelf)) return 0;
    if (order !== 'usual') return limit;
    const ahead = shelf.drained ? 0 : this.roomOn(shelf, this.pace(shelf));
    if (shelf.size >= limit && ahead < AHEAD) return 0;
    return Math.max(0, limit - shelf.size) + Math.min(ahead, AHEAD);
  }

  private looked(destination: string, found: number, quota: number, nextDue: number | null): void {
    const shelf = this.shelfOf(destination);
    // A due delivery that was not claimed had no room among the others.
    shelf.drained = found < quota && (nextDue === null || this.clock.now() < nextDue);
    shelf.lookedAt = this.clock.monotonic();
    shelf.nextDue = nextDue;
  }

  /** Time to ask the store again, if it was not worth it now. */
  private lookAt(destination: string): number {
    const shelf = this.shelfOf(destination);
    const at = this.clock.now() + Math.max(1, BELIEF - (this.clock.monotonic() - shelf.lookedAt));
    return Math.min(at, shelf.nextDue ?? at);
  }

  /** Notes that the store has more for a destination than the last claim showed. */
  private stir(destination: string): void {
    const shelf = this.shelves.get(destination);
    if (!shelf) return;
    shelf.lookedAt = Number.NEGATIVE_INFINITY;
  }

  private expect(destination: string, dueAt: number): void {
    const shelf = this.shelves.get(destination);
    if (shelf) shelf.nextDue = Math.min(shelf.nextDue ?? dueAt, dueAt);
  }

  /** As `stir`, for accepted deliveries that have to wait in the store: nothing newer may be taken before them. */
  left(destination: string): void {
    this.stir(destination);
    const shelf = this.shelves.get(destination);
    if (shelf) shelf.drained = false;
  }

  add(claims: readonly Claim[]): void {
    for (const claim of claims) {
      const shelf = this.shelfOf(claim.destination);
      shelf.lanes[LANES.indexOf(claim.lane)]?.push(claim);
      this.count(shelf, 1, claim);
    }
  }

  /** Takes up to `limit` for the worker, including `also`, found elsewhere. */
  private take(destination: string, limit: number, also: readonly Claim[]): readonly Claim[] {
    const shelf = this.shelfOf(destination);
    const taken = also.concat(this.remove(shelf, limit - also.length));
    this.pace(shelf);
    shelf.taken += taken.length;
    shelf.wanted = limit - taken.length;
    shelf.askedAt = this.clock.monotonic();
    return taken;
  }

  clear(destination?: string): Claim[] {
    return this.clearWhere((name) => destination === undefined || name === destination);
  }

  clearStale(): Claim[] {
    const now = this.clock.monotonic();
    return this.clearWhere((_, { askedAt }) => now - askedAt > STALE);
  }

  private clearWhere(isMeant: (destination: string, shelf: Shelf) => boolean): Claim[] {
    const cleared: Claim[] = [];
    for (const [destination, shelf] of this.shelves) {
      if (shelf.size === 0 || !isMeant(destination, shelf)) continue;
      Object.assign(shelf, { wanted: 0, drained: false });
      cleared.push(...this.remove(shelf, shelf.size));
    }
    return cleared;
  }

  private remove(shelf: Shelf, limit: number): Claim[] {
    const removed: Claim[] = [];
    for (const lane of shelf.lanes) {
      if (removed.length >= limit) break;
      removed.push(...lane.splice(0, limit - removed.length));
    }
    for (const claim of removed) this.count(shelf, -1, claim);
    return removed;
  }

  private count(shelf: Shelf, sign: 1 | -1, { body }: Claim): void {
    shelf.size += sign;
    this.size += sign;
    this.characters += sign * body.length;
  }

  private believedEmpty(shelf: Shelf): boolean {
    const isRecent = this.clock.monotonic() - shelf.lookedAt < BELIEF;
    return shelf.drained && isRecent && (shelf.nextDue === null || this.clock.now() < shelf.nextDue);
  }

  private roomOn(shelf: Shelf, wanted: number): number {
    if (this.characters >= LIMIT_CHARACTERS) return 0;
    return Math.max(0, Math.min(wanted - shelf.size, LIMIT - this.size));
  }

  /** Twice what the worker took in the last whole span: other processes poll for work once a second. */
  private pace(shelf: Shelf): number {
    const now = this.clock.monotonic();
    const elapsed = now - shelf.spanFrom;
    if (elapsed >= SPAN) {
      shelf.takenBefore = elapsed < 2 * SPAN ? shelf.taken : 0;
      shelf.taken = 0;
      shelf.spanFrom = now;
    }
    return 2 * shelf.takenBefore;
  }

  private shelfOf(destination: string): Shelf {
    let shelf = this.shelves.get(destination);
    if (!shelf) {
      const now = this.clock.monotonic();
      const counts = { size: 0, promised: 0, wanted: 0, taken: 0, takenBefore: 0, spanFrom: now, askedAt: now };
      const never = { drained: false, lookedAt: Number.NEGATIVE_INFINITY, nextDue: null };
      shelf = { lanes: LANES.map(() => []), ...counts, ...never };
      this.shelves.set(destination, shelf);
    }
    return shelf;
  }
}
