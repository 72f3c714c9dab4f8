import type { Destination } from '../destination.ts';
import { type Claim, type EndpointState, NO_MARKS, type Settlement } from '../store/port.ts';
import type { Result } from './batcher.ts';
import type { Outlet } from './endpoint/outlet.ts';
import { Outlets } from './endpoint/outlets.ts';
import { Rate } from './endpoint/rate.ts';
import { type Share, WHOLE } from './share.ts';
import { ALONE_AFTER } from './suspects.ts';
import { Tries, type TriesOptions } from './tries.ts';
import { isExpired, released } from './verdict.ts';

/** First attempts that may wait for a busy endpoint before claiming for the destination pauses. */
const WAITING_LIMIT = 256;
/** Limit of deliveries claimed beyond the endpoints' current capacity. */
const AHEAD_LIMIT = 256;
/** Assumed length of a body before any was seen: more than most. */
const LONG = 8_192;

export interface QueueHooks
  extends Pick<TriesOptions, 'clock' | 'wallTime' | 'batchMemory' | 'post' | 'onEndpointChange' | 'onShortage'> {
  /** Start of serving deliveries: earlier times say nothing about the endpoints. */
  readonly servedSince: () => number;
  readonly holdsClaims: () => boolean;
  readonly isStopping: () => boolean;
  readonly onSettled: (settlement: Settlement) => void;
  /** Records a post of a claim held at an abnormal end; resolves to true if it may begin. */
  readonly record: (claim: Claim) => Promise<boolean>;
  /** Called with deliveries that must be posted alone or given up. */
  readonly onSuspect: (claim: Claim) => void;
  /** Called with a delivery that failed through no endpoint's fault. */
  readonly onUndeliverable: (claim: Claim, error: unknown) => void;
  readonly onRoom: (queue: DestinationQueue) => void;
}

/** Deliveries claimed for one destination, on their way to its endpoints. */
export class DestinationQueue {
  readonly name: string;
  readonly outlets: Outlets;
  private destination: Destination;
  private buffer: Claim[] = [];
  private readonly hooks: QueueHooks;
  private readonly rate: Rate;
  private readonly tries: Tries;
  /** Null while other processes serve the destination. */
  private share: Share | null = WHOLE;
  private running = 0;
  private isPumping = false;
  /** Characters of all bodies in hand, and the average of the last claims. */
  heldCharacters = 0;
  usualCharacters = LONG;
  /** Deliveries wanted in hand beyond the endpoints' current capacity. */
  private ahead = 0;
  /** Deliveries ended so far, and their number at the start of the current claim. */
  private ended = 0;
  private endedBefore = 0;
  private readonly onDrained: (() => void)[] = [];
  /** Incremented when everything in hand is given up: earlier deliveries settle nothing. */
  private generation = 0;
  /** Time it was last re-enabled; 0 if never. */
  private enabledAt = 0;

  constructor(
    destination: Destination,
    serviceName: string,
    states: ReadonlyMap<string, EndpointState>,
    hooks: QueueHooks,
  ) {
    this.name = destination.name;
    this.destination = destination;
    this.hooks = hooks;
    this.outlets = new Outlets(hooks.clock, hooks.onEndpointChange);
    this.rate = new Rate(hooks.clock, destination.ratePerSecond);
    this.tries = this.createTries();
    this.configure(destination, serviceName, states);
  }

  /** Applies a changed configuration. State of unchanged endpoints stays; deliveries not begun are released. */
  configure(destination: Destination, serviceName: string, states: ReadonlyMap<string, EndpointState>): void {
    if (destination.enabled && !this.destination.enabled) this.enabledAt = this.hooks.clock.now();
    this.destination = destination;
    this.changeRate();
    this.outlets.configure(destination, serviceName, states, this.share);
    for (const outlet of this.outlets.list) this.tries.configureBatches(outlet);
    this.halt();
  }

  private createTries(): Tries {
    const { name: destination, outlets, hooks } = this;
    return new Tries({
      ...hooks,
      destination,
      outlets,
      require: () => this.destination.require,
      mayPost: (outlet, generation) => this.mayPost(outlet, generation),
      onFree: (outlet) => {
        this.pump();
        if (outlet.batcher || outlets.list.length > 1) hooks.onRoom(this);
      },
    });
  }

  /** Takes its part in serving the destination; with null, finishes running deliveries and leaves the rest to others. */
  changeShare(share: Share | null): void {
    if (share?.of === this.share?.of && share?.leads === this.share?.leads) return;
    this.share = share;
    if (share === null) this.halt();
    else {
      this.changeRate();
      this.outlets.changeShare(share);
      this.hooks.onRoom(this);
    }
  }

  private changeRate(): void {
    const { ratePerSecond } = this.destination;
    this.rate.change(ratePerSecond === null ? null : ratePerSecond / (this.share?.of ?? 1));
  }

  /** Begins nothing more: the destination was removed from the configuration. */
  retire(): void {
    this.destination = { ...this.destination, enabled: false };
    this.halt();
  }

  get enabled(): boolean {
    return this.destination.enabled;
  }

  /** Claims in hand, waiting or begun. */
  get held(): number {
    return this.buffer.length + this.running;
  }

  get idle(): boolean {
    return this.held === 0;
  }

  claiming(): void {
    this.endedBefore = this.ended;
  }

  /** Number of deliveries to claim now: in few large claims, but so that endpoints never wait for the store. */
  room(): number {
    if (!this.enabled || this.share === null) return 0;
    let size = 0;
    for (const outlet of this.outlets.list) {
      if (!outlet.window.open) continue;
      if (outlet.waiting >= WAITING_LIMIT) return 0;
      size = Math.max(size, outlet.size);
    }
    if (size === 0) return this.idle && this.outlets.hasRoom ? 1 : 0;
    // As many again as the window holds, since it may double at any moment.
    const ahead = Math.max(size, this.ahead);
    const wanted = size + ahead - this.held;
    if (wanted < ahead / 2) return 0;
    return Math.max(0, Math.min(wanted, this.rate.available - this.buffer.length));
  }

  /** Milliseconds until `room` may grow without any delivery ending: until a probe is due, or the rate allows more. */
  nextRoomIn(): number | null {
    if (!this.enabled || this.share === null) return null;
    if (this.rate.available < 1) return this.rate.delay;
    return this.idle && this.outlets.areClosed && this.share.leads ? this.outlets.untilProbe : null;
  }

  get retriesAreVain(): boolean {
    return this.tries.retriesAreVain;
  }

  /** Time since when the endpoints may have been tried: neither a downtime nor time disabled counts. */
  private get askedSince(): number {
    return Math.max(this.hooks.servedSince(), this.enabledAt);
  }

  /** Time since when all endpoints are closed, as far as known; null while one is open. */
  get heldBackSince(): number | null {
    return this.outlets.heldBackSince(this.askedSince);
  }

  /** True if this process has tried every endpoint itself since then; a paused one can't be tried. */
  get hasProbed(): boolean {
    return this.outlets.haveBeenTried(this.askedSince);
  }

  add(claims: readonly Claim[]): void {
    // Twice the number that ended during this claim, so that a fast endpoint does not wait for the next one.
    const needed = Math.min(AHEAD_LIMIT, 2 * (this.ended - this.endedBefore));
    this.ahead = Math.max(needed, Math.floor(this.ahead / 2));
    let characters = 0;
    for (const claim of claims) {
      if (claim.crashes >= ALONE_AFTER) this.hooks.onSuspect(claim);
      else {
        this.buffer.push(claim);
        characters += claim.body.length;
      }
    }
    this.heldCharacters += characters;
    if (characters > 0) this.usualCharacters = characters / claims.length;
    this.pump();
  }

  get hasRoom(): boolean {
    return this.enabled && this.share !== null && this.outlets.hasRoom;
  }

  /** Posts a delivery past the buffer while nothing else is in flight; resolves when it has ended. */
  async postAlone(claim: Claim): Promise<void> {
    this.rate.take();
    this.running += 1;
    this.heldCharacters += claim.body.length;
    await this.deliver(claim);
  }

  async drained(): Promise<void> {
    while (this.running > 0) await new Promise<void>((resolve) => this.onDrained.push(resolve));
  }

  /** Releases deliveries that have not begun, uncharged. */
  releaseBuffer(): void {
    for (const claim of this.takeBuffer()) this.hooks.onSettled(released(claim));
  }

  /** Releases deliveries that have not begun, and wakes waiting attempts to check if they may begin. */
  halt(): void {
    this.releaseBuffer();
    this.outlets.wakeAll();
  }

  /** Deliveries waiting for others to share a request with. */
  get gathered(): number {
    return Math.max(0, ...this.outlets.list.map(({ batcher }) => batcher?.gathered ?? 0));
  }

  hurry(): void {
    for (const { batcher } of this.outlets.list) batcher?.hurry();
  }

  /** Drops everything in hand silently: the claims are no longer ours. */
  abandon(): void {
    this.generation += 1;
    this.takeBuffer();
    this.outlets.wakeAll();
  }

  /** Applies an endpoint state found by another process or set by a person. */
  hear(state: EndpointState): void {
    if (this.outlets.hear(state)) this.hooks.onRoom(this);
  }

  /** Begins as many as there is room for, and releases those without a prospect of it. */
  private pump(): void {
    // A delivery may end before `start` returns and pump again: the outer call continues the loop.
    if (this.isPumping) return;
    this.isPumping = true;
    try {
      this.beginAll();
    } finally {
      this.isPumping = false;
    }
  }

  private beginAll(): void {
    const { isStopping, holdsClaims } = this.hooks;
    // A slow delivery checks again before it posts.
    const mayBegin = holdsClaims();
    while (this.buffer.length > 0 && !isStopping() && mayBegin) {
      if (!this.outlets.hasRoom) {
        if (this.outlets.areClosed) break;
        return;
      }
      if (!this.rate.take()) break;
      this.running += 1;
      this.start(this.buffer.shift() as Claim);
    }
    this.releaseBuffer();
  }

  /** Gives up after a fault of ours, or if no request can be made: a retry would not help. */
  private giveUp(claim: Claim, error: unknown): void {
    this.hooks.onUndeliverable(claim, error);
    const verdict = { kind: 'dead', reason: 'undeliverable', status: null, firstAt: claim.firstAt } as const;
    this.hooks.onSettled({ claim, verdict, attempts: [] });
  }

  private takeBuffer(): readonly Claim[] {
    const { buffer } = this;
    this.buffer = [];
    for (const { body } of buffer) this.heldCharacters -= body.length;
    return buffer;
  }

  private finished({ body }: Claim): void {
    this.running -= 1;
    this.heldCharacters -= body.length;
    this.ended += 1;
    if (this.running === 0) for (const drained of this.onDrained.splice(0)) drained();
  }

  /** Starts a delivery. Most go to one endpoint, in their first try, and need no promise of their own. */
  private start(claimed: Claim): void {
    const [only, another] = this.outlets.list;
    const { crashes, marks, firstAt } = claimed;
    const isPlain = crashes === 0 && marks === NO_MARKS && firstAt === null;
    const { generation } = this;
    if (!only || another || !isPlain) void this.deliver(claimed);
    else if (only.batcher) {
      const claim = this.startClock(claimed);
      only.batcher.add({ claim, generation, done: (result) => this.tried(only, claim, generation, result) });
    } else if (this.enabled && only.tryEnter()) {
      const claim = this.startClock(claimed);
      this.tries.post(only, claim, (result) => {
        this.tried(only, claim, generation, result);
        this.pump();
        this.hooks.onRoom(this);
      });
    } else void this.deliver(claimed);
  }

  private tried(outlet: Outlet, claim: Claim, generation: number, result: Result): void {
    try {
      if (generation === this.generation) this.hooks.onSettled(this.tries.settlementOf(outlet, claim, result));
    } catch (error) {
      if (generation === this.generation) this.giveUp(claim, error);
    } finally {
      this.finished(claim);
    }
    // After a batch there is room for as many as it carried.
    if (!('exchange' in result)) this.hooks.onRoom(this);
  }

  /** Takes a claim to its settlement, and makes room for the next. */
  private async deliver(claimed: Claim): Promise<void> {
    const { generation } = this;
    try {
      // An untried delivery is tried once, however long it was held back.
      const settlement =
        claimed.firstAt !== null && isExpired(claimed, this.hooks.clock.now()) && !this.spares(claimed)
          ? expired(claimed)
          : await this.begin(this.startClock(claimed), generation);
      if (generation === this.generation) this.hooks.onSettled(settlement);
    } catch (error) {
      // Only our own claims are ours to give up.
      if (generation === this.generation) this.giveUp(claimed, error);
    } finally {
      this.finished(claimed);
      this.hooks.onRoom(this);
    }
  }

  /** True for a deletion notice that waits for an endpoint to be trusted. */
  private spares({ type }: Claim): boolean {
    return type === 'delete' && this.outlets.mayBeUntrusted;
  }

  /** Only tries of claims held at an abnormal end are recorded: nothing else is written before a post. */
  private begin(claim: Claim, generation: number): Promise<Settlement> {
    return claim.crashes > 0 ? this.tryRecorded(claim, generation) : this.tries.make(claim, generation);
  }

  private async tryRecorded(claim: Claim, generation: number): Promise<Settlement> {
    return (await this.hooks.record(claim)) ? this.tries.make(claim, generation) : released(claim);
  }

  /** Starts the four hours of a first attempt; for one that was held back, from when that began. */
  private startClock(claim: Claim): Claim {
    const heldSince = claim.firstAt === null ? this.heldBackSince : null;
    return heldSince === null ? claim : { ...claim, firstAt: Math.max(claim.acceptedAt, heldSince) };
  }

  private mayPost(outlet: Outlet, generation: number): boolean {
    const { isStopping, holdsClaims } = this.hooks;
    const isOurs = generation === this.generation && holdsClaims();
    return isOurs && !isStopping() && this.enabled && this.outlets.list.includes(outlet);
  }
}

/** Without `firstAt`, no try is charged. */
function expired(claim: Claim): Settlement {
  return { claim, verdict: { kind: 'dead', reason: 'expired', status: null, firstAt: null }, attempts: [] };
}
