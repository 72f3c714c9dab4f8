import type { Dispatcher } from 'undici';
import type { Clock } from '../clock.ts';
import type { Destination } from '../destination.ts';
import { failpoint } from '../failpoint.ts';
import type { Logger } from '../log.ts';
import { backoff } from '../retry.ts';
import type { Claim, ClaimRequest, Settlement, Store } from '../store/port.ts';
import { DestinationQueue, type QueueHooks } from './destination-queue.ts';
import { EndpointStates } from './endpoint-states.ts';
import { type Exchange, post } from './exchange.ts';
import { housekeeping } from './housekeeping.ts';
import { ProcessLease } from './process-lease.ts';
import { attemptHeaders, type PreparedEndpoint } from './request.ts';
import { Settler } from './settler.ts';
import { shareOf } from './share.ts';

export type WorkerStore = Pick<
  Store,
  | 'join'
  | 'owners'
  | 'heartbeat'
  | 'leave'
  | 'rescue'
  | 'claim'
  | 'settle'
  | 'expire'
  | 'bury'
  | 'backlog'
  | 'endpoints'
  | 'markEndpoint'
  | 'prune'
>;

export interface WorkerOptions {
  readonly store: WorkerStore;
  readonly clock: Clock;
  readonly agent: Dispatcher;
  readonly serviceName: string;
  readonly destinations: readonly Destination[];
  /** How long attempts are kept, in milliseconds. */
  readonly attemptRetention: number;
  readonly log: Logger;
  readonly onSettled?: (settlement: Settlement) => void;
}

/** Destinations asked for in one claim, and deliveries in hand at most, over all destinations. */
const REQUESTS_LIMIT = 128;
const HELD_LIMIT = 4_096;
/** How often other processes' messages are looked for, in milliseconds. */
const POLL_INTERVAL = 1_000;
const HOUSEKEEPING_INTERVAL = 30_000;
const RETRY_BASE = 50;
const RETRY_CAP = 5_000;

interface Entry {
  readonly queue: DestinationQueue;
  /** Rises with every hint of new work, so that one that comes during a claim is not lost. */
  hints: number;
  /** Claims made, counted per destination: with one count for all, the same few would always get the turn for retries. */
  claims: number;
  /** Whether the store may have something to claim. */
  wanted: boolean;
  pendingSeen: number;
  /** When it is looked at anew; infinite without a timer. */
  timerAt: number;
  cancelTimer: (() => void) | null;
}

/** Takes deliveries from the store to their endpoints: claims, posts, settles. */
export class Worker {
  private readonly options: WorkerOptions;
  private readonly entries = new Map<string, Entry>();
  /** Queues of destinations that are gone, with what they still have in flight. */
  private retired: DestinationQueue[] = [];
  /** Destinations with work and room, in turn. */
  private readonly ready = new Set<Entry>();
  private readonly lease: ProcessLease;
  private readonly settler: Settler;
  private readonly states: EndpointStates;
  /** The processes that deliver, this one included. */
  private owners: readonly number[] = [];
  private stopping = false;
  private wakeUp: (() => void) | null = null;
  private loops: Promise<unknown>[] = [];

  constructor(options: WorkerOptions) {
    const { store, clock, log } = options;
    this.options = options;
    this.lease = new ProcessLease(store, clock, log, {
      onRenewed: () => {
        this.signal();
        void this.shareOut();
      },
      onEnded: () => this.settler.handIn(),
      onLost: () => this.loseClaims(),
    });
    this.states = new EndpointStates({
      store,
      clock,
      log,
      pause: (ms) => this.pause(ms),
      isStopping: () => this.stopping,
    });
    this.settler = new Settler((settlements) => store.settle(this.lease.owner, settlements), clock, {
      onWritten: (settlements) => this.lookAgain(settlements),
      onFailure: (error) => log.warn({ stage: 'settle', err: error }, 'The store took no settlements; trying again'),
      onGivenUp: ({ claim }, error) =>
        log.error(
          { stage: 'settle', delivery: claim.id, destination: claim.destination, err: error },
          'The store takes others, but not this settlement: the delivery will be made again after a restart',
        ),
    });
  }

  async start(): Promise<void> {
    await this.lease.start();
    await this.shareOut();
    await this.states.load();
    this.configure(this.options.destinations);
    this.loops = [this.claimLoop(), this.every(POLL_INTERVAL, () => this.poll())];
    this.loops.push(this.every(HOUSEKEEPING_INTERVAL, () => this.keepHouse()));
  }

  /** Takes changed destinations; deliveries that are pending follow them. */
  configure(destinations: readonly Destination[]): void {
    const { serviceName } = this.options;
    for (const destination of destinations) {
      const known = this.entries.get(destination.name);
      if (known) known.queue.configure(destination, serviceName, this.states.current);
      else {
        const queue = new DestinationQueue(destination, serviceName, this.states.current, this.hooks());
        const entry = {
          queue,
          hints: 0,
          claims: 0,
          wanted: true,
          pendingSeen: -1,
          timerAt: Number.POSITIVE_INFINITY,
          cancelTimer: null,
        };
        this.entries.set(destination.name, entry);
        queue.changeShare(shareOf(queue.name, this.lease.owner, this.owners));
      }
    }
    const names = new Set(destinations.map(({ name }) => name));
    for (const [name, entry] of this.entries) {
      if (names.has(name)) continue;
      entry.queue.retire();
      this.retired.push(entry.queue);
      entry.cancelTimer?.();
      this.entries.delete(name);
      this.ready.delete(entry);
    }
    this.wake(names);
  }

  /** Says that these destinations have new work. */
  wake(destinations: Iterable<string>): void {
    for (const name of destinations) {
      const entry = this.entries.get(name);
      if (!entry) continue;
      entry.hints += 1;
      entry.wanted = true;
      this.ready.add(entry);
    }
    this.signal();
  }

  /** Gives back what has not begun, lets attempts in flight end (they are bounded), and writes what became of them. */
  async stop(): Promise<void> {
    this.stopping = true;
    this.signal();
    const queues = this.queues();
    for (const queue of queues) queue.halt();
    await Promise.all(queues.map((queue) => queue.drained()));
    await Promise.all(this.loops);
    await this.settler.flush(() => !this.lease.isHeld());
    await this.lease.stop();
  }

  private hooks(): QueueHooks {
    const { clock, onSettled } = this.options;
    return {
      clock,
      post: (endpoint, claim, body) => this.post(endpoint, claim, body),
      holdsClaims: () => this.lease.isHeld(),
      isStopping: () => this.stopping,
      onSettled: (settlement) => {
        this.settler.add(settlement);
        onSettled?.(settlement);
      },
      onEndpointChange: (state) => void this.states.mark(state),
      onRoom: (queue) => {
        const entry = this.entries.get(queue.name);
        if (entry) this.offer(entry);
      },
    };
  }

  private async post(endpoint: PreparedEndpoint, claim: Claim, body: Buffer): Promise<Exchange> {
    const { agent, clock } = this.options;
    const headers = attemptHeaders(endpoint, claim.id, body);
    const exchange = await post(agent, clock, { origin: endpoint.origin, path: endpoint.path, headers, body });
    failpoint('post');
    return exchange;
  }

  /** Puts a destination in line if it has work and room now, else sees to it that it is looked at in time. */
  private offer(entry: Entry): void {
    if (entry.wanted && entry.queue.room() > 0) {
      this.ready.add(entry);
      this.signal();
      return;
    }
    const at = entry.wanted ? entry.queue.nextRoomAt() : null;
    if (at !== null) this.lookAt(entry, at);
  }

  /** Sets the timer of a destination, unless it is looked at before anyway. */
  private lookAt(entry: Entry, at: number): void {
    const { clock } = this.options;
    if (entry.timerAt <= at) return;
    entry.cancelTimer?.();
    entry.timerAt = at;
    // Node fires timers of more than 24.8 days at once.
    const delay = Math.min(Math.max(1, at - clock.now()), 3_600_000);
    entry.cancelTimer = clock.after(delay, () => {
      entry.timerAt = Number.POSITIVE_INFINITY;
      entry.cancelTimer = null;
      entry.wanted = true;
      this.offer(entry);
    });
  }

  /** What was settled may be due again, or may have made way for a newer change of the same conflict key. */
  private lookAgain(settlements: readonly Settlement[]): void {
    const freed = new Set<string>();
    for (const { claim, verdict } of settlements) {
      const dueAt = verdict.kind === 'retry' || verdict.kind === 'release' ? verdict.dueAt : undefined;
      const entry = this.entries.get(claim.destination);
      if (dueAt === null || claim.conflict !== null) freed.add(claim.destination);
      if (entry && typeof dueAt === 'number') this.lookAt(entry, dueAt);
    }
    this.wake(freed);
  }

  private async claimLoop(): Promise<void> {
    for (let failures = 0; !this.stopping; ) {
      const requests = this.requests();
      if (requests.length === 0) {
        await this.sleep();
        continue;
      }
      try {
        await this.claim(requests);
        failures = 0;
      } catch (error) {
        failures += 1;
        this.options.log.warn({ stage: 'claim', err: error }, 'The store gave no deliveries; trying again');
        await this.pause(backoff(failures, this.options.clock.random(), RETRY_BASE, RETRY_CAP));
        for (const { destination } of requests) this.wake([destination]);
      }
    }
  }

  private requests(): ClaimRequest[] {
    const requests: ClaimRequest[] = [];
    if (this.ready.size === 0) return requests;
    let held = this.settler.size;
    for (const { queue } of this.entries.values()) held += queue.held;
    for (const entry of this.ready) {
      if (requests.length >= REQUESTS_LIMIT || held >= HELD_LIMIT || !this.lease.isHeld()) break;
      this.ready.delete(entry);
      const limit = Math.min(entry.queue.room(), HELD_LIMIT - held);
      if (limit <= 0) {
        this.offer(entry);
        continue;
      }
      held += limit;
      entry.queue.claiming();
      requests.push({ destination: entry.queue.name, limit, order: this.nextOrder(entry) });
    }
    return requests;
  }

  /** First tries before retries, but one claim in eight for retries, and one for backfills, so that none starves. */
  private nextOrder(entry: Entry): ClaimRequest['order'] {
    if (entry.queue.probing) return 'retries';
    entry.claims += 1;
    if (entry.claims % 8 === 0) return 'retries';
    return entry.claims % 8 === 4 ? 'backfills' : 'usual';
  }

  private async claim(requests: readonly ClaimRequest[]): Promise<void> {
    const { store } = this.options;
    const owner = this.lease.owner;
    const before = requests.map(({ destination }) => this.entries.get(destination)?.hints);
    const { claims, nextDue } = await store.claim(owner, requests);
    if (owner !== this.lease.owner) return;
    for (const [index, request] of requests.entries()) {
      const claimed = claims[index] ?? [];
      const entry = this.entries.get(request.destination);
      if (!entry || this.stopping) {
        for (const claim of claimed) {
          this.settler.add({ claim, verdict: { kind: 'release', dueAt: null }, attempts: [] });
        }
        continue;
      }
      if (claimed.length < request.limit && entry.hints === before[index]) {
        entry.wanted = false;
        const due = nextDue[request.destination];
        if (due !== null && due !== undefined) this.lookAt(entry, due);
      }
      entry.queue.add(claimed);
      this.offer(entry);
    }
  }

  /** Finds what other processes accepted and gave back, and which endpoints a person resumed. */
  private async poll(): Promise<void> {
    await this.states.refresh((state) => this.entries.get(state.destination)?.queue.hear(state));
    for (const { destination, pending } of await this.options.store.backlog()) {
      const entry = this.entries.get(destination);
      if (!entry || pending === entry.pendingSeen) continue;
      entry.pendingSeen = pending;
      if (pending > entry.queue.held) this.wake([destination]);
    }
  }

  private async keepHouse(): Promise<void> {
    const queues = new Map([...this.entries].map(([name, { queue }]) => [name, queue]));
    const { store, clock, attemptRetention, log } = this.options;
    const freed = await housekeeping({ store, clock, attemptRetention, log, queues });
    if (freed > 0) this.wake(queues.keys());
    this.retired = this.retired.filter(({ idle }) => !idle);
    // Another process may have given back or put off what the poll has seen as pending.
    for (const entry of this.entries.values()) entry.pendingSeen = -1;
  }

  private queues(): DestinationQueue[] {
    return [...[...this.entries.values()].map(({ queue }) => queue), ...this.retired];
  }

  /** Divides the destinations anew among the processes that deliver. */
  private async shareOut(): Promise<void> {
    const { store, log } = this.options;
    try {
      this.owners = await store.owners();
    } catch (error) {
      log.warn({ stage: 'claim', err: error }, 'The store did not tell which processes deliver; trying again');
    }
    for (const { queue } of this.entries.values()) {
      queue.changeShare(shareOf(queue.name, this.lease.owner, this.owners));
    }
  }

  private loseClaims(): void {
    this.settler.clear();
    for (const queue of this.queues()) queue.abandon();
    this.wake(this.entries.keys());
  }

  private async every(interval: number, work: () => Promise<void>): Promise<void> {
    while (!this.stopping) {
      await work().catch((error) => this.options.log.warn({ err: error }, 'The store did not answer; trying again'));
      await this.pause(interval);
    }
  }

  private readonly pauses = new Set<() => void>();

  /** Ends early when the worker stops. */
  private pause(ms: number): Promise<void> {
    if (this.stopping) return Promise.resolve();
    return new Promise((resolve) => {
      const end = () => {
        this.pauses.delete(end);
        cancel();
        resolve();
      };
      const cancel = this.options.clock.after(ms, end);
      this.pauses.add(end);
    });
  }

  private sleep(): Promise<void> {
    return new Promise((resolve) => {
      this.wakeUp = resolve;
      if (this.stopping) resolve();
    });
  }

  private signal(): void {
    this.wakeUp?.();
    this.wakeUp = null;
    if (this.stopping) for (const end of [...this.pauses]) end();
  }
}
