import type { Destination } from '../destination.ts';
import { type Clock, withTime } from '../kernel/clock.ts';
import { RollcallError } from '../kernel/errors.ts';
import { backoff } from '../kernel/retry.ts';
import type { Claim, Settlement, Take } from '../store/port.ts';
import type { BatchMemory } from './batcher.ts';
import { DestinationQueue, type QueueHooks } from './destination-queue.ts';
import { EndpointStates } from './endpoint/endpoint-states.ts';
import { RefusingEndpoints } from './endpoint/refusing.ts';
import { exchange } from './exchange.ts';
import { Fleet } from './fleet.ts';
import { HeldOutLetters } from './held-out.ts';
import { housekeeping, type MessageRetention, prune } from './housekeeping.ts';
import { Loops } from './loops.ts';
import { Orphans } from './orphans.ts';
import { ProcessLease } from './process-lease.ts';
import { Settler } from './settler.ts';
import { Shortage } from './shortage.ts';
import { Stock } from './stock.ts';
import { Suspects } from './suspects.ts';
import { type PlannedClaim, Turns } from './turns.ts';
import { released } from './verdict.ts';
import type { WorkerOptions } from './worker-options.ts';

/** Intervals of polling for what others wrote, in milliseconds; the longer one while nothing waits and no other process delivers. */
const POLL_INTERVAL = 1_000;
const IDLE_POLL_INTERVAL = 3_000;
const HOUSEKEEPING_INTERVAL = 30_000;
/** Milliseconds until old rows are looked for again after none were found. */
const PRUNE_INTERVAL = 300_000;
/** Writing many costs hardly more than writing one. A crash repeats the deliveries of this period. */
const SETTLE_INTERVAL = 100;
const RETRY_BASE = 50;
const RETRY_CAP = 5_000;

const NO_ROOM: Take['room'] = new Map();

/** Takes deliveries from the store to their endpoints: claims, posts, settles. */
export class Worker {
  private readonly options: WorkerOptions;
  /** Reads store time. */
  private readonly clock: Clock;
  private destinations: readonly Destination[];
  private started = false;
  private readonly turns: Turns;
  /** Queues of removed destinations, with their deliveries in flight. */
  private retired: DestinationQueue[] = [];
  private readonly lease: ProcessLease;
  private readonly settler: Settler;
  private readonly suspects: Suspects;
  private readonly states: EndpointStates;
  private readonly batchMemory: BatchMemory = { bytes: 0 };
  private stock: Stock;
  private readonly fleet: Fleet;
  private readonly orphans: Orphans;
  private readonly heldOut: HeldOutLetters;
  private readonly refusing: RefusingEndpoints;
  /** Pending deliveries at the last poll, by destination. */
  private pendingSeen = new Map<string, number>();
  /** True if the last poll found nothing that waits, and no endpoint that is closed. */
  private nothingWaits = false;
  /** The store's value; until it is read, the time since this process has its lease. */
  private servedSince = 0;
  /** Time by the steady clock from which old rows are looked for. */
  private pruneAt = 0;
  private readonly loops: Loops;
  private readonly shortage: Shortage;
  private ended: Promise<void> | null = null;
  /** Set when the store is lost: outcomes can't be written. */
  private isHopeless = false;

  constructor(options: WorkerOptions) {
    const { store, clock, log, destinations } = options;
    this.options = options;
    this.destinations = destinations;
    this.clock = withTime(clock, () => store.time.now());
    this.loops = new Loops({ clock, log, onEnd: (what, cause) => this.reportEnd(what, cause) });
    this.shortage = new Shortage(clock, log);
    this.turns = new Turns(this.clock, () => this.loops.signal());
    this.stock = new Stock(this.clock, null);
    this.fleet = new Fleet({
      store,
      owner: () => this.lease.owner,
      log,
      onDivided: (isChanged) => this.divide(isChanged),
    });
    this.orphans = new Orphans({ store, clock, log, removedAfter: () => this.fleet.removedAfter });
    this.lease = this.leaseOf(options);
    this.suspects = this.suspectsOf(options);
    this.states = new EndpointStates({ store, clock, log, loops: this.loops });
    const leads = (name: string) => this.turns.queue(name) !== undefined && this.fleet.shareOf(name)?.leads === true;
    this.heldOut = new HeldOutLetters({ store, log, leads, onQueued: (names) => this.queued(names) });
    this.refusing = new RefusingEndpoints({
      store,
      clock,
      log,
      states: this.states,
      turns: this.turns,
      loops: this.loops,
      leads,
      onQueued: (name) => this.queued([name]),
    });
    this.settler = this.settlerOf(options);
  }

  private get messageRetention(): MessageRetention {
    return this.options.messageRetention?.() ?? { keep: 0, maxSize: 0 };
  }

  private leaseOf({ store, clock, log }: WorkerOptions): ProcessLease {
    return new ProcessLease(store, clock, log, {
      onRenewed: () => {
        this.loops.signal();
        void this.fleet.announce();
        // The next heartbeat retries.
        void this.giveBack(this.stock.clearStale()).catch(() => undefined);
      },
      onEnded: () => {
        this.stock = new Stock(this.clock, null);
        this.settler.handIn();
      },
      onLost: () => this.loseClaims(),
    });
  }

  private settlerOf({ store, clock, log, settleInterval = SETTLE_INTERVAL }: WorkerOptions): Settler {
    return new Settler({
      settle: (settlements) => store.settle(this.lease.owner, settlements, this.messageRetention.keep > 0),
      clock,
      interval: settleInterval,
      hooks: {
        onWritten: (settlements) => this.lookAgain(settlements),
        onFailure: (error) => log.warn({ stage: 'settle', err: error }, 'Could not write settlements; retrying'),
        onGivenUp: ({ claim }, error) =>
          log.error(
            { stage: 'settle', delivery: claim.id, destination: claim.destination, err: error },
            'The store keeps rejecting this settlement; the delivery will be repeated after a restart',
          ),
        onFatal: (error) => this.reportEnd('settling', error),
      },
    });
  }

  private suspectsOf({ store, log }: WorkerOptions): Suspects {
    return new Suspects({
      clock: this.clock,
      log,
      begin: (claims) => store.begin(this.lease.owner, claims),
      drained: () => this.drained(),
      queueOf: (destination) => this.turns.queue(destination),
      settle: (settlement) => this.settled(settlement),
      onResumed: () => this.wake(this.turns.names),
    });
  }

  /** @param isLasting - false for a command that delivers in passing: it never considers a destination removed */
  async start(isLasting = true): Promise<void> {
    // Joining is the last step that may fail: a failed start leaves nothing behind.
    await this.states.load();
    this.servedSince = this.clock.now();
    await this.lease.start();
    this.stock = new Stock(this.clock, this.lease.owner);
    this.fleet.know(this.destinations, this.options.removedAfter());
    await this.fleet.announce();
    this.started = true;
    this.configure(this.destinations);
    this.loops.run('claiming', () => this.claimLoop());
    this.loops.every(
      'polling',
      () => (this.nothingWaits && this.fleet.isAlone ? IDLE_POLL_INTERVAL : POLL_INTERVAL),
      () => this.poll(),
    );
    this.loops.every(
      'housekeeping',
      () => HOUSEKEEPING_INTERVAL,
      () => this.keepHouse(),
    );
    if (!isLasting) return;
    this.loops.every(
      'looking for orphans',
      () => this.orphans.interval,
      () => this.orphans.look(),
    );
  }

  /** An endpoint's window in this process: its size and requests in flight; null if it posts nothing there. */
  windowOf(destination: string, endpoint: string): { readonly size: number; readonly inFlight: number } | null {
    const outlet = this.started ? this.turns.queue(destination)?.outlets.find(endpoint) : undefined;
    return outlet ? { size: outlet.window.size, inFlight: outlet.window.inFlight } : null;
  }

  /** Applies changed destinations; pending deliveries follow them. */
  configure(destinations: readonly Destination[]): void {
    this.destinations = destinations;
    if (!this.started) return;
    const { serviceName } = this.options;
    for (const destination of destinations) {
      const known = this.turns.queue(destination.name);
      if (known) known.configure(destination, serviceName, this.states.current);
      else {
        const queue = new DestinationQueue(destination, serviceName, this.states.current, this.hooks());
        this.turns.add(queue);
        queue.changeShare(this.fleet.shareOf(queue.name));
      }
    }
    const names = new Set(destinations.map(({ name }) => name));
    for (const queue of this.turns.queues) {
      if (names.has(queue.name)) continue;
      queue.retire();
      this.retired.push(queue);
      this.turns.remove(queue.name);
      // If this fails, the stock becomes stale after a while.
      void this.giveBack(this.stock.clear(queue.name)).catch(() => undefined);
    }
    this.fleet.know(destinations, this.options.removedAfter());
    void this.fleet.announce();
    this.wake(names);
  }

  /** Reserves room to claim deliveries as they are accepted, as far as the endpoints keep up. */
  reserve(counts: ReadonlyMap<string, number>): Take | null {
    const { owner } = this.stock;
    if (owner === null || this.loops.isStopping || this.isHopeless) return null;
    const room = this.stock.reserve(counts);
    return room.size > 0 ? { owner, room } : null;
  }

  /** Applies the outcome of an accept that made these numbers of deliveries; null claims mean nothing was stored. */
  accepted(counts: ReadonlyMap<string, number>, take: Take | null, claims: readonly Claim[] | null): void {
    // An expired lease frees its claims.
    const isOurs = take === null || take.owner === this.stock.owner;
    if (isOurs) this.stock.accepted(counts, take?.room ?? NO_ROOM, claims ?? []);
    if (claims) this.wake(counts.keys());
  }

  /** Releases claims that no queue has taken yet, so that they can be erased. */
  giveBackStock(): Promise<void> {
    return this.giveBack(this.stock.clear());
  }

  private async giveBack(claims: readonly Claim[]): Promise<void> {
    const { stock } = this;
    if (stock.owner === null || claims.length === 0) return;
    try {
      await this.options.store.settle(
        stock.owner,
        claims.map((claim) => released(claim)),
      );
    } catch (error) {
      stock.add(claims);
      throw error;
    }
  }

  private queued(destinations: readonly string[]): void {
    for (const destination of destinations) this.stock.left(destination);
    this.wake(destinations);
  }

  wake(destinations: Iterable<string>): void {
    this.turns.wake(destinations);
  }

  /** Notes that no more work will be accepted, so that no batch waits for it. */
  expectNoMore(): void {
    this.turns.complete();
  }

  /** Releases deliveries not begun, lets attempts in flight end (they are bounded), and writes the outcomes. */
  stop(): Promise<void> {
    this.ended ??= this.end();
    return this.ended;
  }

  private async end(): Promise<void> {
    this.loops.stop();
    await this.drained();
    await this.suspects.stop();
    await this.loops.ended();
    await this.refusing.stop();
    await this.settler.flush(() => !this.holdsClaims());
    await this.fleet.settled();
    await this.orphans.stop();
    this.stock = new Stock(this.clock, null);
    if (this.started) await this.lease.stop();
  }

  /** Posts nothing more and waits for nothing: the store is lost. */
  giveUp(): void {
    this.isHopeless = true;
  }

  private holdsClaims(): boolean {
    return !this.isHopeless && this.lease.isHeld();
  }

  private reportEnd(what: string, cause: unknown): void {
    const { onFatal, log } = this.options;
    const why = cause instanceof Error ? `: ${cause.message}` : '';
    const error = new RollcallError('internal_error', `Delivery has ended because of a fault in ${what}${why}.`, {
      cause,
    });
    if (onFatal) onFatal(error);
    else log.error({ err: error }, error.message);
  }

  /** Releases deliveries not begun; resolves when nothing is in flight. */
  private async drained(): Promise<void> {
    const queues = this.queues();
    for (const queue of queues) queue.halt();
    await Promise.all(queues.map((queue) => queue.drained()));
  }

  private settled(settlement: Settlement): void {
    this.settler.add(settlement);
    this.options.onSettled?.(settlement);
  }

  private hooks(): QueueHooks {
    const { clock } = this.options;
    return {
      clock: this.clock,
      wallTime: () => clock.now(),
      batchMemory: this.batchMemory,
      servedSince: () => this.servedSince,
      post: (request, done) => exchange(this.options.agent, clock, request, done),
      holdsClaims: () => this.holdsClaims(),
      isStopping: () => this.loops.isStopping || this.suspects.isDraining,
      onSettled: (settlement) => this.settled(settlement),
      record: (claim) => this.suspects.record(claim),
      onSuspect: (claim) => this.suspects.take(claim),
      onUndeliverable: ({ id, destination }, error) =>
        this.options.log.error(
          { stage: 'deliver', delivery: id, destination, err: error },
          'Could not build a request for this delivery; it becomes a dead letter',
        ),
      onEndpointChange: (state) => void this.refusing.changed(state),
      onShortage: (error) => this.shortage.note(error, this.queues()),
      onRoom: ({ name }) => this.turns.offer(name),
    };
  }

  /** Settled deliveries may be due again, or may have freed a newer change of the same conflict key. */
  private lookAgain(settlements: readonly Settlement[]): void {
    this.suspects.written(settlements);
    this.stock.settled(settlements);
    const freed = new Set<string>();
    for (const { claim, verdict } of settlements) {
      const dueAt = verdict.kind === 'retry' || verdict.kind === 'release' ? verdict.dueAt : undefined;
      if (dueAt === null || claim.conflict !== null) freed.add(claim.destination);
      if (typeof dueAt === 'number') this.turns.lookAt(claim.destination, dueAt);
    }
    this.wake(freed);
  }

  private async claimLoop(): Promise<void> {
    for (let failures = 0; !this.loops.isStopping; ) {
      const planned = this.holdsClaims() && !this.suspects.isAlone ? this.turns.next(this.settler) : [];
      if (planned.length === 0) {
        await this.loops.awaitSignal();
        continue;
      }
      try {
        await this.claim(planned);
        failures = 0;
      } catch (error) {
        failures += 1;
        this.options.log.warn({ stage: 'claim', err: error }, 'Could not claim deliveries; retrying');
        await this.loops.sleep(backoff(failures, this.options.clock.random(), RETRY_BASE, RETRY_CAP));
        this.wake(planned.map(({ request }) => request.destination));
      }
    }
  }

  private async claim(planned: readonly PlannedClaim[]): Promise<void> {
    const { store } = this.options;
    const { stock } = this;
    const { owner } = stock;
    if (owner === null) return;
    const { claims, nextDue } = await stock.serve(
      planned.map(({ request }) => request),
      (requests) => store.claim(owner, requests),
    );
    if (stock !== this.stock) return;
    for (const [index, each] of planned.entries()) {
      const claimed = claims[index] ?? [];
      if (!this.turns.has(each.turn) || this.loops.isStopping || this.suspects.isAlone) {
        for (const claim of claimed) this.settler.add(released(claim));
        continue;
      }
      each.turn.queue.add(claimed);
      this.turns.claimed(each, claimed.length, nextDue.get(each.request.destination));
      if (claimed.length < each.request.limit) this.heldOut.drained(each.request.destination);
    }
  }

  /** Finds deliveries that other processes accepted or released, and endpoints that a person resumed. */
  private async poll(): Promise<void> {
    const polled = this.options.store.poll();
    await this.states.refresh(polled, (state) => this.turns.queue(state.destination)?.hear(state));
    const { backlogs, endpoints } = await polled;
    this.nothingWaits = endpoints.length === 0 && backlogs.every(({ pending, heldOut }) => pending + heldOut === 0);
    for (const { destination, pending } of backlogs) {
      const queue = this.turns.queue(destination);
      if (!queue || pending === this.pendingSeen.get(destination)) continue;
      this.pendingSeen.set(destination, pending);
      if (pending > queue.held) this.wake([destination]);
    }
    await this.heldOut.look(backlogs);
    await this.refusing.look();
    await this.hurryForDeletions();
  }

  /** A deletion waits for all deliveries in hand, in any process: nothing about the user may follow the notice. */
  private async hurryForDeletions(): Promise<void> {
    const gathering = this.queues().filter(({ gathered }) => gathered > 0);
    if (gathering.length === 0) return;
    const { epoch, settled } = await this.options.store.deletions(null);
    if (settled === epoch) return;
    for (const queue of gathering) queue.hurry();
  }

  private async keepHouse(): Promise<void> {
    const queues = new Map(this.turns.queues.map((queue) => [queue.name, queue]));
    const { store, attemptRetention, recordRetention, log } = this.options;
    this.servedSince = await store.servedSince();
    const options = {
      store,
      clock: this.clock,
      attemptRetention: attemptRetention(),
      recordRetention: recordRetention?.(),
      messageRetention: this.messageRetention,
      log,
      queues,
      giveBack: (name: string) => this.giveBack(this.stock.clear(name)),
    };
    if ((await housekeeping(options)) > 0) this.wake(queues.keys());
    const now = this.clock.monotonic();
    if (now >= this.pruneAt && (await prune(options)) === 0) this.pruneAt = now + PRUNE_INTERVAL;
    this.retired = this.retired.filter(({ idle }) => !idle);
    // Another process may have released or postponed what the poll has seen as pending.
    this.pendingSeen.clear();
  }

  private queues(): DestinationQueue[] {
    return [...this.turns.queues, ...this.retired];
  }

  private divide(isChanged: boolean): void {
    // Deliveries of a dead process are pending as before, but free.
    if (isChanged) this.pendingSeen.clear();
    for (const queue of this.turns.queues) queue.changeShare(this.fleet.shareOf(queue.name));
  }

  private loseClaims(): void {
    this.servedSince = this.clock.now();
    this.stock = new Stock(this.clock, this.lease.owner);
    void this.fleet.announce();
    this.settler.clear();
    this.suspects.clear();
    for (const queue of this.queues()) queue.abandon();
    this.wake(this.turns.names);
  }
}
