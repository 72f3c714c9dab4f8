import type { Clock } from '../../clock.ts';
import type { AcceptRequest, Claim, ClaimRequest, ClaimResult, Settlement } from '../port.ts';
import { type Found, Stock } from '../stock.ts';

/** Claims in the database, for what is not in stock. */
type Look = (owner: number, requests: readonly ClaimRequest[]) => Promise<Found>;
type GiveBack = (owner: number, claims: readonly Claim[]) => Promise<void>;

/** Whom deliveries are claimed for as they are accepted, and how many of each destination. */
export interface Taker {
  readonly owner: number;
  readonly room: ReadonlyMap<string, number>;
  /** Messages of each destination. */
  readonly counts: ReadonlyMap<string, number>;
}

/** Hands what is accepted to this process's worker: claimed with the insert, it is neither written nor read a second time. */
export class HandOver {
  private readonly clock: Clock;
  private readonly look: Look;
  private readonly giveBack: GiveBack;
  private owner: number | null = null;
  private stock: Stock;
  /** Room promised to accepts that are under way. */
  private readonly promised = new Map<string, number>();

  /** @param clock - its time is the store's */
  constructor(clock: Clock, look: Look, giveBack: GiveBack) {
    this.clock = clock;
    this.look = look;
    this.giveBack = giveBack;
    this.stock = new Stock(clock);
  }

  /** Promises room for these messages; what comes of it is told to `accepted`. */
  taker({ messages }: AcceptRequest): Taker | null {
    const { owner, stock } = this;
    if (owner === null) return null;
    const counts = new Map<string, number>();
    for (const { destinations } of messages) {
      for (const destination of destinations) counts.set(destination, (counts.get(destination) ?? 0) + 1);
    }
    const room = new Map<string, number>();
    for (const [destination, count] of counts) {
      const free = Math.max(0, stock.room(destination) - (this.promised.get(destination) ?? 0));
      room.set(destination, Math.min(count, free));
      this.promise(destination, Math.min(count, free));
    }
    return { owner, room, counts };
  }

  /** @param handed - the deliveries that were claimed; null when the accept failed */
  async accepted(taker: Taker, handed: readonly Claim[] | null): Promise<void> {
    const given = new Map<string, number>();
    for (const { destination } of handed ?? []) given.set(destination, (given.get(destination) ?? 0) + 1);
    for (const [destination, room] of taker.room) {
      this.promise(destination, -room);
      if (given.get(destination) !== taker.counts.get(destination)) this.stock.left(destination);
    }
    if (!handed || handed.length === 0) return;
    if (taker.owner === this.owner) this.stock.add(handed);
    // What fails here is freed when the lease of that owner, who has left, ends.
    else await this.giveBack(taker.owner, handed).catch(() => undefined);
  }

  claim(owner: number, requests: readonly ClaimRequest[]): Promise<ClaimResult> {
    const stock = owner === this.owner ? this.stock : new Stock(this.clock);
    return stock.serve(requests, (looks) => this.look(owner, looks));
  }

  /** Says that more of a destination waits in the database than the stock knows of. */
  left(destination: string): void {
    this.stock.left(destination);
  }

  settled(settlements: readonly Settlement[]): void {
    this.stock.settled(settlements);
  }

  /** Keeps a stock for this owner from now on; what another had is given back. */
  async joined(owner: number): Promise<void> {
    const { owner: before, stock } = this;
    this.owner = owner;
    this.stock = new Stock(this.clock);
    if (before !== null) await this.release(before, stock, stock.clear());
  }

  /** The owner's lease has ended, or is about to: its claims are freed with it. */
  ended(owner: number): void {
    if (owner !== this.owner) return;
    this.owner = null;
    this.stock = new Stock(this.clock);
  }

  /** Gives back what the worker has not asked for in a long time. */
  async freeStale(): Promise<void> {
    const { owner, stock } = this;
    if (owner !== null) await this.release(owner, stock, stock.clearStale());
  }

  /** Gives back what is in stock of a destination, or of all. */
  async free(destination?: string): Promise<void> {
    const { owner, stock } = this;
    if (owner !== null) await this.release(owner, stock, stock.clear(destination));
  }

  private async release(owner: number, stock: Stock, claims: readonly Claim[]): Promise<void> {
    if (claims.length === 0) return;
    try {
      await this.giveBack(owner, claims);
    } catch (error) {
      stock.add(claims);
      throw error;
    }
  }

  private promise(destination: string, count: number): void {
    const sum = (this.promised.get(destination) ?? 0) + count;
    if (sum > 0) this.promised.set(destination, sum);
    else this.promised.delete(destination);
  }
}
