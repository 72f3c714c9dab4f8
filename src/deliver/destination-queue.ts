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

/** First attempts that may wait for a busy endpoint before the destination's claims wait too. */
const WAITING_LIMIT = 256;
/** Deliveries claimed beyond what the endpoints take at once, at most. */
const AHEAD_LIMIT = 256;
/** Characters that bodies are taken to have before any were seen: more than most. */
const LONG = 8_192;

export interface QueueHooks
  extends Pick<TriesOptions, 'clock' | 'wallTime' | 'batchMemory' | 'post' | 'onEndpointChange'> {
  /** Since when deliveries are served: what was before says nothing of the endpoints. */
  readonly servedSince: () => number;
  /** Whether this process still holds its claims. */
  readonly holdsClaims: () => boolean;
  /** Whether no more attempts may begin. */
  readonly isStopping: () => boolean;
  readonly onSettled: (settlement: Settlement) => void;
  /** Records a post of what was held at an abnormal end; resolves to whether it may begin. */
  readonly record: (claim: Claim) => Promise<boolean>;
  /** Called with what has to be posted alone, or not at all. */
  readonly onSuspect: (claim: Claim) => void;
  /** Called with a delivery that failed in a way that no endpoint is to blame for. */
  readonly onUndeliverable: (claim: Claim, error: unknown) => void;
  /** Called when there may be room for more. */
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
  /** Null while the destination is left to other processes. */
  private share: Share | null = WHOLE;
  private running = 0;
  private isPumping = false;
  /** Characters of all bodies in hand, and of one as the last claims had them. */
  heldCharacters = 0;
  usualCharacters = LONG;
  /** Deliveries that should be in hand beyond those that the endpoints take at once. */
  private ahead = 0;
  /** Deliveries ended so far, and at the start of the claim under way. */
  private ended = 0;
  private endedBefore = 0;
  private readonly onDrained: (() => void)[] = [];
  /** Rises when everything in hand is given up: what was begun before settles nothing. */
  private generation = 0;
  /** When it was last enabled after having been disabled; 0 if it never was. */
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

  /** Takes a changed configuration; what is known of unchanged endpoints stays, and what has not begun is given back. */
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

  /** Takes its part in serving the destination; with null it finishes what it has begun, and leaves the rest to others. */
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

  /** Begins nothing more: the destination is gone from the configuration. */
  retire(): void {
    this.destination = { ...this.destination, enabled: false };
    this.halt();
  }

  get enabled(): boolean {
    return this.destination.enabled;
  }

  /** Claims in hand: those waiting to begin and those begun. */
  get held(): number {
    return this.buffer.length + this.running;
  }

  get idle(): boolean {
    return this.held === 0;
  }

  /** Says that a claim begins. */
  claiming(): void {
    this.endedBefore = this.ended;
  }

  /** Deliveries that should be claimed now, in few large claims, but so that the endpoints never wait for the store. */
  room(): number {
    if (!this.enabled || this.share === null) return 0;
    let size = 0;
    for (const outlet of this.outlets.list) {
      if (!outlet.window.open) continue;
      if (outlet.waiting >= WAITING_LIMIT) return 0;
      size = Math.max(size, outlet.size);
    }
    if (size === 0) return this.idle && this.outlets.hasRoom ? 1 : 0;
    // As many again as the window holds, for it may double at any moment.
    const ahead = Math.max(size, this.ahead);
    const wanted = size + ahead - this.held;
    if (wanted < ahead / 2) return 0;
    return Math.max(0, Math.min(wanted, this.rate.available - this.buffer.length));
  }

  /** In how many milliseconds `room` may be more although nothing ends before: a probe is due, or the rate allows it. */
  nextRoomIn(): number | null {
    if (!this.enabled || this.share === null) return null;
    if (this.rate.available < 1) return this.rate.delay;
    return this.idle && this.outlets.areClosed && this.share.leads ? this.outlets.untilProbe : null;
  }

  /** Whether what is tried again mostly fails again, while the endpoints take other messages. */
  get retriesAreVain(): boolean {
    return this.tries.retriesAreVain;
  }

  /** Since when the endpoints may have been asked: neither a downtime nor a time in which it was disabled counts. */
  private get askedSince(): number {
    return Math.max(this.hooks.servedSince(), this.enabledAt);
  }

  /** Since when no endpoint takes anything, as far as anyone looked; null while one does. */
  get heldBackSince(): number | null {
    return this.outlets.heldBackSince(this.askedSince);
  }

  /** Whether this process has seen for itself that the endpoints take nothing; a paused one can't be asked. */
  get hasProbed(): boolean {
    return this.outlets.haveBeenTried(this.askedSince);
  }

  add(claims: readonly Claim[]): void {
    // Twice what ended during this claim, so that a fast endpoint does not wait for the next one.
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

  /** Whether an attempt could begin at once. */
  get hasRoom(): boolean {
    return this.enabled && this.share !== null && this.outlets.hasRoom;
  }

  /** Posts a delivery past the buffer, while nothing else is in flight; resolves once it has ended. */
  async postAlone(claim: Claim): Promise<void> {
    this.rate.take();
    this.running += 1;
    this.heldCharacters += claim.body.length;
    await this.deliver(claim);
  }

  /** Resolves once no delivery is under way. */
  async drained(): Promise<void> {
    while (this.running > 0) await new Promise<void>((resolve) => this.onDrained.push(resolve));
  }

  /** Gives back what has not begun, uncharged. */
  releaseBuffer(): void {
    for (const claim of this.takeBuffer()) this.hooks.onSettled(released(claim));
  }

  /** Gives back what has not begun, and has attempts that wait for a busy endpoint look again whether they may begin. */
  halt(): void {
    this.releaseBuffer();
    this.outlets.wakeAll();
  }

  /** Deliveries that wait for others to go in one request with. */
  get gathered(): number {
    return Math.max(0, ...this.outlets.list.map(({ batcher }) => batcher?.gathered ?? 0));
  }

  /** Has them wait no longer. */
  hurry(): void {
    for (const { batcher } of this.outlets.list) batcher?.hurry();
  }

  /** Drops what is in hand without a word: the claims are no longer ours. */
  abandon(): void {
    this.generation += 1;
    this.takeBuffer();
    this.outlets.wakeAll();
  }

  /** Takes over what another process or a person found of an endpoint. */
  hear(state: EndpointState): void {
    if (this.outlets.hear(state)) this.hooks.onRoom(this);
  }

  /** Begins what there is room for, and gives back what has no prospect of it. */
  private pump(): void {
    // What begins may end before it returns: the one who pumps then goes on by itself.
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
    // A delivery that takes its time asks again before it posts.
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

  /** A fault of ours, or a delivery that can't be made into a request: trying again would not help. */
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

  /** Most go to one endpoint, at their first try. These have no promise of their own. */
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
    // After a batch there is room for all that it brought.
    if (!('exchange' in result)) this.hooks.onRoom(this);
  }

  /** Brings a claim to its settlement, and makes room for the next. */
  private async deliver(claimed: Claim): Promise<void> {
    const { generation } = this;
    try {
      // A delivery that was never tried is tried once, however long it was held back.
      const settlement =
        claimed.firstAt !== null && isExpired(claimed, this.hooks.clock.now())
          ? expired(claimed)
          : await this.begin(this.startClock(claimed), generation);
      if (generation === this.generation) this.hooks.onSettled(settlement);
    } catch (error) {
      // A claim that is no longer ours is not ours to give up.
      if (generation === this.generation) this.giveUp(claimed, error);
    } finally {
      this.finished(claimed);
      this.hooks.onRoom(this);
    }
  }

  /** Only a try of what was held at an abnormal end is recorded: nothing else is written before a post. */
  private begin(claim: Claim, generation: number): Promise<Settlement> {
    return claim.crashes > 0 ? this.tryRecorded(claim, generation) : this.tries.make(claim, generation);
  }

  private async tryRecorded(claim: Claim, generation: number): Promise<Settlement> {
    return (await this.hooks.record(claim)) ? this.tries.make(claim, generation) : released(claim);
  }

  /** A probe that was held back before its first attempt: its four hours began when it was. */
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

/** Without a time, no try is charged. */
function expired(claim: Claim): Settlement {
  return { claim, verdict: { kind: 'dead', reason: 'expired', status: null, firstAt: null }, attempts: [] };
}
