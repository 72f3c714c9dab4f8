import type { Claim, ClaimRequest, ClaimResult, Settlement } from '../../port.ts';
import type { StoreContext } from '../context.ts';
import { Cursors } from '../cursors.ts';
import { ClaimStatement } from './claim-statement.ts';
import { heldBy } from './settle.ts';

/** The claims of an owner that this process knows of, and a search for those it may hold unknowingly. */
export class Claims {
  readonly cursors: Cursors;
  private readonly context: StoreContext;
  private readonly statement: ClaimStatement;
  private readonly held = new Map<number, Set<string>>();
  /** Number of searches left for claims whose answer never arrived. */
  private doubts = 0;
  private last: Promise<unknown> = Promise.resolve();
  private taking: Promise<unknown> = Promise.resolve();
  /** The last owner that left or is leaving: nothing more is claimed for it. */
  private leaving: number | null = null;

  constructor(context: StoreContext) {
    this.context = context;
    this.cursors = new Cursors(context);
    this.statement = new ClaimStatement(context, this.cursors);
  }

  claim(owner: number, requests: readonly ClaimRequest[]): Promise<ClaimResult> {
    return this.inTurn(() => this.ifAnswered(() => this.claimNow(owner, requests)));
  }

  /** Run `work`, which accepts deliveries and claims them for `owner`. It resolves to the claims of each request. */
  take(owner: number, work: () => Promise<ClaimLists>): Promise<ClaimLists> {
    const done = this.ifAnswered(async () => {
      const claims = await work();
      for (const each of claims) this.hold(owner, each);
      return claims;
    });
    this.taking = done.catch(() => undefined);
    return done;
  }

  /** True if deliveries may be claimed for an owner on accept: it is not leaving, and no claims are in doubt. */
  mayTake(owner: number | null): boolean {
    return this.doubts === 0 && owner !== this.leaving;
  }

  settled(owner: number, settlements: readonly Settlement[]): void {
    const held = this.held.get(owner);
    for (const { claim } of settlements) held?.delete(claim.id);
  }

  /** Run `leave`, which ends an owner's lease, once nothing more is being claimed for it. */
  async left(owner: number, leave: () => Promise<void>): Promise<void> {
    this.leaving = owner;
    await this.taking;
    await leave();
    this.held.delete(owner);
  }

  /** Run `free` for claims that owners of this process hold without having received them. */
  freeUntold(free: Free): Promise<number> {
    return this.inTurn(async () => {
      if (this.doubts === 0) return 0;
      await this.taking;
      let freed = 0;
      for (const [owner, held] of this.held) {
        const untold = (await heldBy(this.context, owner)).filter((id) => !held.has(this.context.ids.name(id)));
        if (untold.length > 0) freed += await free(owner, untold);
      }
      this.doubts -= 1;
      return freed;
    });
  }

  /** Run work one after the other: claims on their way to the worker must not count as not received. */
  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.last.then(work, work);
    this.last = done.catch(() => undefined);
    return done;
  }

  private async ifAnswered<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      // Unknown if it was committed: the server may even still be at work.
      this.doubts = DOUBTS;
      throw error;
    }
  }

  private hold(owner: number, claims: readonly Claim[]): void {
    const held = this.held.get(owner) ?? new Set();
    this.held.set(owner, held);
    for (const { id } of claims) held.add(id);
  }

  private async claimNow(owner: number, requests: readonly ClaimRequest[]): Promise<ClaimResult> {
    this.hold(owner, []);
    const result = await this.statement.run(owner, requests);
    for (const claims of result.claims) this.hold(owner, claims);
    return result;
  }
}

type ClaimLists = readonly (readonly Claim[])[];

/** Releases all or the named claims of an owner; resolves to their number. With `isCrashed` it ended abnormally. */
export type Free = (owner: number, ids?: readonly number[], isCrashed?: boolean) => Promise<number>;

/** Rescues (one every half minute) that search for them: together longer than any statement may run. */
const DOUBTS = 3;
