import isEqual from 'lodash/isEqual.js';
import type { Clock } from '../clock.ts';
import type { Destination } from '../destination.ts';
import { failpoint } from '../failpoint.ts';
import type { Attempt, Claim, EndpointState, Refusal, Settlement } from '../store/port.ts';
import type { Exchange } from './exchange.ts';
import { Outlet } from './outlet.ts';
import { Rate } from './rate.ts';
import { isDenial, REFUSALS } from './refusals.ts';
import { type PreparedEndpoint, prepareEndpoint } from './request.ts';
import { type Share, WHOLE } from './share.ts';
import { ALONE_AFTER } from './suspects.ts';
import { type EndpointResult, isExpired, judge } from './verdict.ts';
import { Window } from './window.ts';

/** First attempts that may wait for a busy endpoint before the destination's claims wait too. */
const WAITING_LIMIT = 256;
/** Deliveries claimed beyond what the endpoints take at once, at most. */
const AHEAD_LIMIT = 256;

/** How much one attempt counts in the share of retries that are taken, and below which share they are in vain. */
const RETRY_WEIGHT = 1 / 16;
const VAIN = 0.25;

export interface QueueHooks {
  /** Its time is the store's. */
  readonly clock: Clock;
  readonly wallTime: () => number;
  /** Since when deliveries are served: what was before says nothing of the endpoints. */
  readonly servedSince: () => number;
  readonly post: (endpoint: PreparedEndpoint, claim: Claim, body: Buffer) => Promise<Exchange>;
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
  /** Called when an endpoint dies, comes back, or is paused. */
  readonly onEndpointChange: (state: EndpointState) => void;
  /** Called when there may be room for more. */
  readonly onRoom: (queue: DestinationQueue) => void;
}

/** What is claimed for one destination and on its way to the destination's endpoints. */
export class DestinationQueue {
  readonly name: string;
  private destination: Destination;
  private outlets: readonly Outlet[] = [];
  private buffer: Claim[] = [];
  private readonly hooks: QueueHooks;
  private readonly rate: Rate;
  /** Null while the destination is left to other processes. */
  private share: Share | null = WHOLE;
  private running = 0;
  /** Deliveries that should be in hand beyond those that the endpoints take at once. */
  private ahead = 0;
  /** Deliveries ended so far, and at the start of the claim under way. */
  private ended = 0;
  private endedBefore = 0;
  private readonly onDrained: (() => void)[] = [];
  /** How often a message that was tried before is taken, of late: 1 for always. */
  private retryYield = 1;
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
    this.rate = new Rate(hooks.clock, destination.ratePerSecond);
    this.configure(destination, serviceName, states);
  }

  /** Takes a changed configuration; what is known of unchanged endpoints stays, and what has not begun is given back. */
  configure(destination: Destination, serviceName: string, states: ReadonlyMap<string, EndpointState>): void {
    const before = this.outlets;
    if (destination.enabled && !this.destination.enabled) this.enabledAt = this.hooks.clock.now();
    this.destination = destination;
    this.changeRate();
    this.outlets = destination.endpoints.map((endpoint) => {
      const prepared = prepareEndpoint(endpoint, destination, serviceName);
      const known = before.find(({ id }) => id === endpoint.id);
      if (known) return reconfigured(known, prepared);
      return this.newOutlet(prepared, states);
    });
    this.halt();
    for (const outlet of before) outlet.wakeAll();
  }

  private newOutlet(prepared: PreparedEndpoint, states: ReadonlyMap<string, EndpointState>): Outlet {
    const { clock } = this.hooks;
    const { id } = prepared.endpoint;
    const known = states.get(id);
    // A wrong URL was mended: what it refused is the new one's to take.
    const inherited = known ? null : this.refusalOfRemoved(states);
    const { pausedAt = null, deadSince = null, refusal = inherited } = known ?? {};
    const window = new Window({
      pausedAt,
      deadSince,
      refusingSince: refusal?.since ?? null,
      share: this.share ?? WHOLE,
    });
    if (inherited)
      this.hooks.onEndpointChange({ endpoint: id, destination: this.name, pausedAt, deadSince, refusal: inherited });
    return new Outlet(prepared, window, clock, refusal);
  }

  /** What is still to be sent again of an endpoint that is configured no longer. */
  private refusalOfRemoved(states: ReadonlyMap<string, EndpointState>): Refusal | null {
    const removed = [...states.values()].filter(
      ({ endpoint, destination }) =>
        destination === this.name && !this.destination.endpoints.some(({ id }) => id === endpoint),
    );
    return removed.find(({ refusal }) => refusal)?.refusal ?? null;
  }

  /** Takes its part in serving the destination; with null it finishes what it has begun, and leaves the rest to others. */
  changeShare(share: Share | null): void {
    if (share?.of === this.share?.of && share?.leads === this.share?.leads) return;
    this.share = share;
    if (share === null) this.halt();
    else {
      this.changeRate();
      for (const { window } of this.outlets) window.changeShare(share);
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
    for (const { window, waiting } of this.outlets) {
      if (!window.open) continue;
      if (waiting >= WAITING_LIMIT) return 0;
      size = Math.max(size, window.size);
    }
    if (size === 0) return this.idle && this.outlets.some(({ hasRoom }) => hasRoom) ? 1 : 0;
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
    if (!this.idle || !this.probing || !this.share.leads) return null;
    const probes = this.outlets.filter(({ window }) => window.pausedAt === null).map(({ untilProbe }) => untilProbe);
    return probes.length > 0 ? Math.max(1, Math.min(...probes)) : null;
  }

  /** Whether only a probe can be sent: then a delivery that was tried already should be it. */
  get probing(): boolean {
    return !this.outlets.some(({ window }) => window.open);
  }

  /** Whether a probe should be with what was never tried, if there is such: so each is with another message. */
  get probesUntried(): boolean {
    return this.outlets.some(({ window }) => window.refusingSince !== null);
  }

  /** Endpoints that seem to refuse everything, as far as this process alone can tell. */
  get suspected(): readonly Outlet[] {
    return this.outlets.filter(
      ({ refusals, window }) => window.leads && window.open && refusals.row >= REFUSALS / window.sharers,
    );
  }

  outlet(endpoint: string): Outlet | undefined {
    return this.outlets.find(({ id }) => id === endpoint);
  }

  /** What is known of an endpoint. */
  stateOf(outlet: Outlet): EndpointState {
    const { pausedAt, deadSince } = outlet.window;
    return { endpoint: outlet.id, destination: this.name, pausedAt, deadSince, refusal: outlet.refusals.state };
  }

  /** Whether what is tried again mostly fails again, while the endpoints take other messages. */
  get retriesAreVain(): boolean {
    return this.retryYield < VAIN;
  }

  /** Since when the endpoints may have been asked: neither a downtime nor a time in which it was disabled counts. */
  private get askedSince(): number {
    return Math.max(this.hooks.servedSince(), this.enabledAt);
  }

  /** Since when no endpoint takes anything, as far as anyone looked; null while one does. */
  get heldBackSince(): number | null {
    let since: number | null = null;
    for (const { window } of this.outlets) {
      const closed = window.pausedAt ?? window.refusingSince ?? window.deadSince;
      if (closed === null) return null;
      since = Math.max(since ?? this.askedSince, closed);
    }
    return since;
  }

  /** Whether this process has seen for itself that the endpoints take nothing; a paused one can't be asked. */
  get hasProbed(): boolean {
    const since = this.askedSince;
    return this.outlets.every(
      ({ window, triedAt }) => window.pausedAt !== null || (triedAt !== null && triedAt >= since),
    );
  }

  add(claims: readonly Claim[]): void {
    // Twice what ended during this claim, so that a fast endpoint does not wait for the next one.
    const needed = Math.min(AHEAD_LIMIT, 2 * (this.ended - this.endedBefore));
    this.ahead = Math.max(needed, Math.floor(this.ahead / 2));
    for (const claim of claims) {
      if (claim.crashes < ALONE_AFTER) this.buffer.push(claim);
      else this.hooks.onSuspect(claim);
    }
    this.pump();
  }

  /** Whether an attempt could begin at once. */
  get hasRoom(): boolean {
    return this.enabled && this.share !== null && this.outlets.some(({ hasRoom }) => hasRoom);
  }

  /** Posts a delivery past the buffer, while nothing else is in flight; resolves once it has ended. */
  async postAlone(claim: Claim): Promise<void> {
    this.rate.take();
    this.running += 1;
    await this.deliver(claim);
  }

  /** Resolves once no delivery is under way. */
  async drained(): Promise<void> {
    while (this.running > 0) await new Promise<void>((resolve) => this.onDrained.push(resolve));
  }

  /** Gives back what has not begun, uncharged. */
  releaseBuffer(): void {
    const buffer = this.buffer;
    this.buffer = [];
    for (const claim of buffer) {
      this.hooks.onSettled({ claim, verdict: { kind: 'release', dueAt: null }, attempts: [] });
    }
  }

  /** Gives back what has not begun, and has attempts that wait for a busy endpoint look again whether they may begin. */
  halt(): void {
    this.releaseBuffer();
    for (const outlet of this.outlets) outlet.wakeAll();
  }

  /** Drops what is in hand without a word: the claims are no longer ours. */
  abandon(): void {
    this.generation += 1;
    this.buffer = [];
    for (const outlet of this.outlets) outlet.wakeAll();
  }

  /** Takes over what another process or a person found of an endpoint. */
  hear(state: EndpointState): void {
    const outlet = this.outlet(state.endpoint);
    if (!outlet) return;
    const before = outlet.window.open;
    outlet.hear(state);
    if (outlet.window.open !== before) this.hooks.onRoom(this);
  }

  /** Begins what there is room for, and gives back what has no prospect of it. */
  private pump(): void {
    const { isStopping, holdsClaims } = this.hooks;
    while (this.buffer.length > 0 && !isStopping() && holdsClaims()) {
      if (!this.outlets.some(({ hasRoom }) => hasRoom)) {
        if (this.probing) break;
        return;
      }
      if (!this.rate.take()) break;
      this.running += 1;
      void this.deliver(this.buffer.shift() as Claim);
    }
    this.releaseBuffer();
  }

  /** A fault of ours, or a delivery that can't be made into a request: trying again would not help. */
  private giveUp(claim: Claim, error: unknown): void {
    this.hooks.onUndeliverable(claim, error);
    const verdict = { kind: 'dead', reason: 'undeliverable', status: null, firstAt: claim.firstAt } as const;
    this.hooks.onSettled({ claim, verdict, attempts: [] });
  }

  private finished(): void {
    this.running -= 1;
    this.ended += 1;
    if (this.running === 0) for (const drained of this.onDrained.splice(0)) drained();
    this.hooks.onRoom(this);
  }

  /** Brings a claim to its settlement, and makes room for the next. */
  private async deliver(claimed: Claim): Promise<void> {
    const { generation } = this;
    try {
      // What was never tried is tried once, however long it was held back.
      const settlement = isExpired(claimed, this.hooks.clock.now())
        ? expired(claimed)
        : await this.begin(this.startClock(claimed), generation);
      if (generation === this.generation) this.hooks.onSettled(settlement);
    } catch (error) {
      // What is no longer ours is not ours to give up.
      if (generation === this.generation) this.giveUp(claimed, error);
    } finally {
      this.finished();
    }
  }

  /** Only a try of what was held at an abnormal end is recorded: nothing else is written before a post. */
  private begin(claim: Claim, generation: number): Promise<Settlement> {
    return claim.crashes > 0 ? this.tryRecorded(claim, generation) : this.try(claim, generation);
  }

  private async tryRecorded(claim: Claim, generation: number): Promise<Settlement> {
    return (await this.hooks.record(claim)) ? this.try(claim, generation) : released(claim);
  }

  /** One try: every endpoint that has not answered for good is posted to, at once. */
  private async try(claim: Claim, generation: number): Promise<Settlement> {
    const body = Buffer.from(claim.body);
    const open = this.outlets.filter(({ id }) => claim.marks[id] === undefined);
    const tries = open.map((outlet) => this.tryEndpoint(outlet, claim, body, generation));
    // Most have one endpoint, for which Promise.all would make promises of its own.
    const results = tries[0] && tries.length === 1 ? [await tries[0]] : await Promise.all(tries);
    const { clock } = this.hooks;
    const now = clock.now();
    const { require } = this.destination;
    const endpoints = this.outlets.map(({ id }) => id);
    const verdict = judge({ claim, require, endpoints, results, now, random: clock.random() });
    return {
      claim,
      verdict,
      attempts: verdict.kind === 'release' ? [] : attemptsOf(claim, results, this.hooks.wallTime()),
    };
  }

  /** A probe that was held back before its first attempt: its four hours began when it was. */
  private startClock(claim: Claim): Claim {
    const heldSince = claim.firstAt === null ? this.heldBackSince : null;
    return heldSince === null ? claim : { ...claim, firstAt: Math.max(claim.acceptedAt, heldSince) };
  }

  private async tryEndpoint(outlet: Outlet, claim: Claim, body: Buffer, generation: number): Promise<EndpointResult> {
    const endpoint = outlet.id;
    // Most find a place at once, and every promise counts here.
    if (!this.mayPost(outlet, generation) || !outlet.tryEnter()) {
      const skipped = await outlet.enter(() => this.mayPost(outlet, generation));
      if (skipped) return { endpoint, skipped, until: this.hooks.clock.now() + outlet.nextChance };
    }
    const at = this.hooks.clock.now();
    const { begun } = outlet.window;
    let exchange: Exchange;
    try {
      exchange = await this.hooks.post(outlet.prepared, claim, body);
    } catch (error) {
      outlet.withdraw();
      throw error;
    }
    failpoint('post');
    if (claim.tries > 0) this.noteRetry(outlet, exchange);
    if (outlet.leave(exchange, begun, claim)) this.hooks.onEndpointChange(this.stateOf(outlet));
    const denial = isDenial(exchange) ? outlet.standing : null;
    // The endpoint is free for the next delivery, though this one may wait for another endpoint.
    this.pump();
    if (this.outlets.length > 1) this.hooks.onRoom(this);
    return { endpoint, exchange, at, denial };
  }

  private noteRetry({ window }: Outlet, { outcome }: Exchange): void {
    if (outcome === 'success') this.retryYield += (1 - this.retryYield) * RETRY_WEIGHT;
    else if (!window.isAiling) this.retryYield -= this.retryYield * RETRY_WEIGHT;
  }

  private mayPost(outlet: Outlet, generation: number): boolean {
    const { isStopping, holdsClaims } = this.hooks;
    const isOurs = generation === this.generation && holdsClaims();
    return isOurs && !isStopping() && this.enabled && this.outlets.includes(outlet);
  }
}

const released = (claim: Claim): Settlement => ({ claim, verdict: { kind: 'release', dueAt: null }, attempts: [] });

/** Without a time, no try is charged. */
function expired(claim: Claim): Settlement {
  return { claim, verdict: { kind: 'dead', reason: 'expired', status: null, firstAt: null }, attempts: [] };
}

function attemptsOf(claim: Claim, results: readonly EndpointResult[], now: number): Attempt[] {
  const attempts: Attempt[] = [];
  for (const result of results) {
    const { endpoint } = result;
    if ('exchange' in result) {
      const { at, ms, outcome, status, error, response } = result.exchange;
      attempts.push({ endpoint, at, ms, outcome, status, error, response });
    } else if (claim.tries === 0 && result.skipped !== 'cut') {
      const error = `endpoint_${result.skipped}`;
      attempts.push({ endpoint, at: now, ms: 0, outcome: 'skipped', status: null, error, response: null });
    }
  }
  return attempts;
}

/** A changed secret or header may be what an endpoint waits for that takes nothing: it is probed at once. */
function reconfigured(outlet: Outlet, prepared: PreparedEndpoint): Outlet {
  const { key, ...rest } = prepared;
  const { key: keyBefore, ...restBefore } = outlet.prepared;
  const isSameKey = key === null || keyBefore === null ? key === keyBefore : key.equals(keyBefore);
  if (!isSameKey || !isEqual(rest, restBefore)) outlet.window.probeSoon();
  return Object.assign(outlet, { prepared });
}
