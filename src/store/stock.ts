import type { Clock } from '../clock.ts';
import { type Claim, type ClaimRequest, type ClaimResult, LANES, type Settlement } from './port.ts';

/** Claims in stock at most, over all destinations, and the characters of their bodies. */
const LIMIT = 8_000;
const LIMIT_CHARACTERS = 16_000_000;
/** A destination's stock is at most twice what the worker took in the last such span, in milliseconds. */
const SPAN = 1_000;
/** Rows claimed ahead of the worker's asking at a time. */
const AHEAD = 1_000;
/** For how long the database is taken to have nothing more that is ready, in milliseconds. */
const BELIEF = 200;
/** What the worker has not asked for in this time is stale, in milliseconds. */
const STALE = 5_000;

/** What a look into the database gave, by destination. */
export interface Found {
  readonly claims: ReadonlyMap<string, readonly Claim[]>;
  /** When the next is due of each destination that was looked at; null when nothing waits. */
  readonly nextDue: ReadonlyMap<string, number | null>;
}

const NOTHING: Found = { claims: new Map(), nextDue: new Map() };

interface Shelf {
  readonly lanes: readonly Claim[][];
  size: number;
  /** What the last claim asked for in vain. */
  wanted: number;
  /** Taken in this span, and in the one before. */
  taken: number;
  takenBefore: number;
  spanFrom: number;
  askedAt: number;
  /** Whether the last look into the database found less than it asked for. */
  drained: boolean;
  lookedAt: number;
  nextDue: number | null;
}

/**
 * Deliveries that this process holds claimed, and its worker has not asked for yet. They were claimed along with others,
 * since a claim of hundreds costs little more than one of ten, or as they were accepted: what is handed over so is neither
 * written nor read a second time. Both only in the measure in which the worker takes them, so that other processes get
 * theirs, and only while nothing older waits.
 */
export class Stock {
  private readonly clock: Clock;
  private readonly shelves = new Map<string, Shelf>();
  private size = 0;
  private characters = 0;

  /** @param clock - its time is the store's */
  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** How many more deliveries of a destination may be claimed as they are accepted. */
  room(destination: string): number {
    const shelf = this.shelves.get(destination);
    return shelf?.drained ? this.roomOn(shelf, Math.max(shelf.wanted, this.pace(shelf))) : 0;
  }

  /** Answers a claim from stock, and with `look` from the database where that is worth it. */
  async serve(
    requests: readonly ClaimRequest[],
    look: (requests: readonly ClaimRequest[]) => Promise<Found>,
  ): Promise<ClaimResult> {
    const looks = requests
      .map((request) => ({ ...request, limit: this.quota(request) }))
      .filter(({ limit }) => limit > 0);
    const found = looks.length > 0 ? await look(looks) : NOTHING;
    const unserved = new Map(found.claims);
    for (const { destination, limit } of looks) {
      this.looked(destination, unserved.get(destination)?.length ?? 0, limit, found.nextDue.get(destination) ?? null);
    }
    const nextDue = new Map<string, number | null>();
    const claims = requests.map(({ destination, limit, order }) => {
      const fresh = unserved.get(destination) ?? [];
      unserved.delete(destination);
      if (order === 'usual') this.add(fresh);
      const taken = this.take(destination, limit, order === 'usual' ? [] : fresh);
      const due = found.nextDue.get(destination);
      if (taken.length < limit) nextDue.set(destination, due === undefined ? this.lookAt(destination) : due);
      return taken;
    });
    return { claims, nextDue };
  }

  /** Takes note that what was given back, or made way for a newer change, is to be looked for again. */
  settled(settlements: readonly Settlement[]): void {
    for (const { claim, verdict } of settlements) {
      const dueAt = verdict.kind === 'retry' || verdict.kind === 'release' ? verdict.dueAt : undefined;
      if (dueAt === null || claim.conflict !== null) this.stir(claim.destination);
      else if (dueAt !== undefined) this.expect(claim.destination, dueAt);
    }
  }

  /** How many to ask the database for; 0 while it is not worth a look. */
  private quota({ destination, limit, order }: ClaimRequest): number {
    const shelf = this.shelves.get(destination);
    if (!shelf) return limit;
    if (shelf.size > 0 && this.believedEmpty(shelf)) return 0;
    if (order !== 'usual') return limit;
    const ahead = shelf.drained ? 0 : this.roomOn(shelf, this.pace(shelf));
    if (shelf.size >= limit && ahead < AHEAD) return 0;
    return Math.max(0, limit - shelf.size) + Math.min(ahead, AHEAD);
  }

  /** Takes note of what the database had. */
  private looked(destination: string, found: number, quota: number, nextDue: number | null): void {
    const shelf = this.shelfOf(destination);
    shelf.drained = found < quota;
    shelf.lookedAt = this.clock.monotonic();
    shelf.nextDue = nextDue;
  }

  /** When to look into the database again, where it was not worth a look. */
  private lookAt(destination: string): number {
    const shelf = this.shelfOf(destination);
    const at = this.clock.now() + Math.max(1, BELIEF - (this.clock.monotonic() - shelf.lookedAt));
    return Math.min(at, shelf.nextDue ?? at);
  }

  /** Says that the database has more of a destination than the last look showed. */
  private stir(destination: string): void {
    const shelf = this.shelves.get(destination);
    if (!shelf) return;
    shelf.lookedAt = Number.NEGATIVE_INFINITY;
  }

  /** Says that something of a destination is due at this time. */
  private expect(destination: string, dueAt: number): void {
    const shelf = this.shelves.get(destination);
    if (shelf) shelf.nextDue = Math.min(shelf.nextDue ?? dueAt, dueAt);
  }

  /** As `stir`, where what was accepted had to wait behind others: then nothing newer may be handed over before. */
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

  /** Takes up to `limit` for the worker, `also` having been found for it elsewhere. */
  private take(destination: string, limit: number, also: readonly Claim[]): readonly Claim[] {
    const shelf = this.shelfOf(destination);
    const taken = also.concat(this.remove(shelf, limit - also.length));
    this.pace(shelf);
    shelf.taken += taken.length;
    shelf.wanted = limit - taken.length;
    shelf.askedAt = this.clock.monotonic();
    return taken;
  }

  /** Takes out all that is there, or all of a destination. */
  clear(destination?: string): Claim[] {
    return this.clearWhere((name) => destination === undefined || name === destination);
  }

  /** Takes out what the worker has not asked for in a long time. */
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

  /** Twice what the worker took in the last whole span: other processes look for work to take over once a second. */
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
      const counts = { size: 0, wanted: 0, taken: 0, takenBefore: 0, spanFrom: now, askedAt: now };
      const never = { drained: false, lookedAt: Number.NEGATIVE_INFINITY, nextDue: null };
      shelf = { lanes: LANES.map(() => []), ...counts, ...never };
      this.shelves.set(destination, shelf);
    }
    return shelf;
  }
}
