import { type Clock, withTime } from '../../clock.ts';
import type { Claim, ClaimRequest, ClaimResult, Settlement } from '../port.ts';
import { type Found, Stock } from '../stock.ts';
import { ClaimStatement } from './claim-statement.ts';
import { type Context, idName, idNumber } from './context.ts';
import { Cursors } from './cursors.ts';
import { heldBy } from './settle.ts';

/** What an owner has in hand, as far as this process knows, and what it may have without knowing. */
export class Claims {
  readonly cursors: Cursors;
  private readonly context: Context;
  /** Its time is the store's. */
  private readonly clock: Clock;
  private readonly statement: ClaimStatement;
  private readonly held = new Map<number, Set<string>>();
  /** Whose claims are kept in stock: who joined first, until its lease ends. */
  private owner: number | null = null;
  private stock: Stock;
  /** How many more times to look for claims whose answer never came. */
  private doubts = 0;
  private last: Promise<unknown> = Promise.resolve();
  private handing: Promise<unknown> = Promise.resolve();

  constructor(context: Context) {
    this.context = context;
    this.cursors = new Cursors(context);
    this.statement = new ClaimStatement(context, this.cursors);
    this.clock = withTime(context.db.clock, () => context.db.time.now());
    this.stock = new Stock(this.clock);
  }

  claim(owner: number, requests: readonly ClaimRequest[]): Promise<ClaimResult> {
    return this.inTurn(() => this.ifAnswered(() => this.claimNow(owner, requests)));
  }

  /** Has `work` accept deliveries that it claims for `owner`; what it resolves to is in stock from then on. */
  handOver(work: () => Promise<readonly Claim[]>): Promise<void> {
    const { stock, owner } = this;
    const done = this.ifAnswered(async () => {
      const claims = await work();
      this.hold(owner ?? 0, claims);
      stock.add(claims);
    });
    this.handing = done.catch(() => undefined);
    return done;
  }

  /** Whom deliveries may be claimed for as they are accepted, and how many of a destination. */
  taker(): { readonly owner: number; room(destination: string): number } | null {
    const { owner, stock } = this;
    return owner === null || this.doubts > 0 ? null : { owner, room: (destination) => stock.room(destination) };
  }

  /** Says that deliveries of these destinations were accepted without being handed over. */
  accepted(destinations: Iterable<string>): void {
    for (const destination of destinations) this.stock.left(destination);
  }

  settled(owner: number, settlements: readonly Settlement[]): void {
    const held = this.held.get(owner);
    for (const { claim } of settlements) held?.delete(claim.id);
    this.stock.settled(settlements);
  }

  /** Keeps a stock for this owner from now on; what another had is given back. */
  async joined(owner: number, free: Free): Promise<void> {
    const before = this.owner;
    const claims = await this.ended(before);
    this.owner = owner;
    await this.cursors.sweep();
    if (before !== null) await this.giveBack(before, claims, free);
  }

  /** Ends the stock of an owner; resolves to what was in it once nothing more is handed over. */
  async ended(owner: number | null): Promise<readonly Claim[]> {
    if (owner !== this.owner) return [];
    const { stock } = this;
    this.owner = null;
    this.stock = new Stock(this.clock);
    await this.handing;
    return stock.clear();
  }

  left(owner: number): void {
    this.held.delete(owner);
  }

  /** Gives back what is in stock of a destination, or of all. */
  async freeStock(free: Free, destination?: string): Promise<void> {
    await this.handing;
    const { owner, stock } = this;
    if (owner !== null) await this.giveBack(owner, stock.clear(destination), free);
  }

  /** Gives back what the worker has not asked for in a long time. */
  async freeStale(free: Free): Promise<void> {
    const { owner, stock } = this;
    if (owner !== null) await this.giveBack(owner, stock.clearStale(), free);
  }

  private giveBack(owner: number, claims: readonly Claim[], free: Free): Promise<void> {
    const held = this.held.get(owner);
    for (const { id } of claims) held?.delete(id);
    return this.ifAnswered(async () => {
      const ids = claims.map(({ id }) => idNumber(this.context, id));
      if (ids.length > 0) await free(owner, ids);
    });
  }

  /** Has `free` give back what an owner of this process holds but was never told of. */
  freeUntold(free: Free): Promise<number> {
    return this.inTurn(async () => {
      if (this.doubts === 0) return 0;
      await this.handing;
      let freed = 0;
      for (const [owner, held] of this.held) {
        const untold = (await heldBy(this.context, owner)).filter((id) => !held.has(idName(this.context, id)));
        if (untold.length > 0) freed += await free(owner, untold);
      }
      this.doubts -= 1;
      return freed;
    });
  }

  /** One after the other: what is on its way to the worker must not pass for untold. */
  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.last.then(work, work);
    this.last = done.catch(() => undefined);
    return done;
  }

  private async ifAnswered<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      // Committed or not, no one can tell: the server may even be at it still.
      this.doubts = DOUBTS;
      throw error;
    }
  }

  private hold(owner: number, claims: readonly Claim[]): void {
    const held = this.held.get(owner) ?? new Set();
    this.held.set(owner, held);
    for (const { id } of claims) held.add(id);
  }

  private claimNow(owner: number, requests: readonly ClaimRequest[]): Promise<ClaimResult> {
    const stock = owner === this.owner ? this.stock : new Stock(this.clock);
    this.hold(owner, []);
    return stock.serve(requests, (looks) => this.look(owner, looks));
  }

  private async look(owner: number, requests: readonly ClaimRequest[]): Promise<Found> {
    const found = await this.statement.run(owner, requests);
    for (const claims of found.claims.values()) this.hold(owner, claims);
    return found;
  }
}

/** Gives back what an owner has claimed, or only those named; resolves to their number. */
export type Free = (owner: number, ids?: readonly number[]) => Promise<number>;

/** Rescues (one every half minute) that look for them: longer than any statement may run. */
const DOUBTS = 3;
