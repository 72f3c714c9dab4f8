import { once } from 'node:events';
import countBy from 'lodash/countBy.js';
import type { Test } from 'tap';
import type { Dispatcher } from 'undici';
import { type Accept, createAccept } from '../../../src/accept.ts';
import { type AgentOptions, createAgent } from '../../../src/deliver/http/agent.ts';
import { Worker } from '../../../src/deliver/worker.ts';
import type { WorkerStore } from '../../../src/deliver/worker-options.ts';
import { type Destination, endpointId } from '../../../src/destination.ts';
import type { RollcallError } from '../../../src/kernel/errors.ts';
import { type Logger, silentLogger } from '../../../src/kernel/log.ts';
import type { Message } from '../../../src/message.ts';
import type { Backlog, DeadLetter, Settlement, Store } from '../../../src/store/port.ts';
import { ManualClock } from '../../helpers/clock.ts';
import { type TestDatabase, testDatabase } from '../../helpers/database.ts';
import { answers, heldAnswers } from './receiver.ts';

/** A destination of these URLs, connected to the source `shop`. */
export function destination(urls: string | readonly string[], options: Partial<Destination> = {}): Destination {
  const name = options.name ?? 'crm';
  const endpoints = [urls].flat().map((url) => ({ id: endpointId(name, url), url, headers: {} }));
  return {
    enabled: true,
    sources: ['shop'],
    secrets: [],
    endpoints,
    require: 'any',
    ratePerSecond: null,
    ...options,
    name,
  };
}

/** A step in which much time passes, in milliseconds: such that the lease is renewed in between. */
const LONG_STEP = 9_000;
/** So many at most become one; fewer where the time of orphans counts, of which a worker counts a minute at a time. */
const MOST_STEPS = 33;
const COUNTED_STEPS = 6;
/** Lengths of the timers of a worker's rounds, and how many of each it has set: it polls, tells that it lives, and keeps house. */
const ROUNDS: ReadonlyMap<number, number> = new Map([
  [1_000, 1],
  [3_000, 1],
  [5_000, 1],
  [30_000, 2],
]);
/** Many times as many steps as any test needs: one that stands still is told from one that is slow. */
const MOST_PASSES = 5_000;
let made = 0;

/** What the rigs on a clock have in common. */
interface Shared {
  /** That are not over. */
  attempts: number;
  /** Workers that run. */
  workers: number;
  /** By how much leases are longer than the workers know, in milliseconds. */
  leaseMore: number;
}

const shares = new WeakMap<ManualClock, Shared>();

function sharedOn(clock: ManualClock): Shared {
  const found = shares.get(clock) ?? { attempts: 0, workers: 0, leaseMore: 0 };
  shares.set(clock, found);
  return found;
}

/** Counts the attempts that go through an agent. */
function counted(agent: Dispatcher, shared: Shared): Dispatcher {
  return agent.compose((dispatch) => (options, handler) => {
    let isOver = false;
    const over = () => {
      if (!isOver) shared.attempts -= 1;
      isOver = true;
      answers.emit('moved');
    };
    shared.attempts += 1;
    const watched = new Proxy(handler, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) => {
          if (name === 'onResponseEnd' || name === 'onResponseError') over();
          return value.apply(target, args);
        };
      },
    });
    try {
      return dispatch(options, watched);
    } catch (error) {
      over();
      throw error;
    }
  });
}

/** A track call, or with `conflict` the kind of message that a sync makes. */
export function message(options: Partial<Message> & { readonly value?: unknown } = {}): Message {
  made += 1;
  const { value = made, ...fields } = options;
  const body = JSON.stringify({ version: 1, type: 'track', userId: 'u', event: 'e', properties: { value } });
  return { type: 'track', messageId: `m${made}`, userId: 'u', integrations: null, body, ...fields };
}

export interface RigOptions {
  readonly destinations: readonly Destination[];
  /** One of its own unless given; one that is given is left open. Its clock is the rig's. */
  readonly database?: TestDatabase;
  /** The store as the worker sees it, so that a test can make it fail. */
  readonly workerStore?: (store: Store) => WorkerStore;
  readonly network?: Partial<AgentOptions>;
  readonly log?: Logger;
  readonly removedAfter?: number;
  readonly attemptRetention?: () => number;
  /** Whether the process is there to stay, as it is unless given. */
  readonly isLasting?: boolean;
  readonly onFatal?: (error: RollcallError) => void;
}

/** Accept, store, worker and agent put together as the service does, on a clock that the test moves. */
export class Rig {
  readonly clock: ManualClock;
  readonly store: Store;
  readonly worker: Worker;
  readonly accept: Accept;
  readonly settlements: Settlement[] = [];
  readonly database: TestDatabase;
  private destinations: readonly Destination[];
  private readonly shared: Shared;
  private readonly mostSteps: number;
  private readonly watchers = new Set<() => void>();
  private readonly end: () => Promise<void>;
  private ended: Promise<void> | null = null;

  private constructor(options: RigOptions, database: TestDatabase, store: Store) {
    const { clock } = database;
    this.clock = clock;
    this.database = database;
    this.store = store;
    this.destinations = options.destinations;
    this.shared = sharedOn(clock);
    this.mostSteps = options.removedAfter === undefined ? MOST_STEPS : COUNTED_STEPS;
    const agent = counted(
      createAgent({ allow: ['127.0.0.0/8'], ca: [], proxy: null, ...options.network }),
      this.shared,
    );
    const seen = options.workerStore?.(store) ?? store;
    const workerStore: WorkerStore = Object.assign(Object.create(seen), {
      heartbeat: (owner: number, ttl: number) => seen.heartbeat(owner, ttl + this.shared.leaseMore),
    });
    this.worker = new Worker({
      store: workerStore,
      clock,
      agent,
      serviceName: 'Rollcall',
      destinations: options.destinations,
      attemptRetention: options.attemptRetention ?? (() => 7 * 86_400_000),
      removedAfter: () => options.removedAfter ?? 86_400_000,
      log: options.log ?? silentLogger,
      // Time stands still unless the test moves it.
      settleInterval: 0,
      ...(options.onFatal ? { onFatal: options.onFatal } : {}),
      onSettled: (settlement) => {
        this.settlements.push(settlement);
        for (const look of this.watchers) look();
      },
    });
    this.accept = createAccept(store, () => this.destinations, this.worker);
    this.end = async () => {
      this.shared.workers -= 1;
      await this.worker.stop();
      if (!options.database) await database.close();
      await agent.destroy();
    };
  }

  static async start(t: Test, options: RigOptions): Promise<Rig> {
    const database = options.database ?? (await testDatabase(t, new ManualClock()));
    const rig = new Rig(options, database, await database.open());
    t.teardown(() => rig.stopInTime());
    rig.shared.workers += 1;
    await rig.worker.start(options.isLasting);
    // Its first look into the database is over.
    await rig.calm();
    return rig;
  }

  /** Stops gracefully; attempts in flight are given their five seconds. */
  stop(): Promise<void> {
    this.ended ??= this.end();
    return this.ended;
  }

  /** As `stop`, letting the time pass that attempts in flight may take. */
  async stopInTime(): Promise<void> {
    let done = false;
    const stopped = this.stop().finally(() => {
      done = true;
    });
    while (!done) await this.pass(1_000);
    await stopped;
  }

  configure(destinations: readonly Destination[]): void {
    this.destinations = destinations;
    this.worker.configure(destinations);
  }

  /** Accepts this many track calls. */
  async send(count = 1): Promise<void> {
    await this.accept(
      'shop',
      Array.from({ length: count }, () => message()),
    );
  }

  get verdicts(): string[] {
    return this.settlements.map(({ verdict }) => verdict.kind);
  }

  /** Deliveries that were delivered, to one destination or to all. One that had to be posted again counts once. */
  delivered(destination?: string): number {
    const isOne = ({ claim, verdict }: Settlement) =>
      verdict.kind === 'delivered' && (destination ?? claim.destination) === claim.destination;
    return new Set(this.settlements.filter(isOne).map(({ claim }) => claim.id)).size;
  }

  /** Attempts of all settlements so far: outcome and cause. */
  get outcomes(): (readonly [outcome: string, error: string | null])[] {
    return this.settlements.flatMap(({ attempts }) => attempts.map(({ outcome, error }) => [outcome, error] as const));
  }

  /** Resolves once this many settlements have been made in all, releases aside. */
  settled(count: number): Promise<void> {
    return this.until(() => this.verdicts.filter((kind) => kind !== 'release').length >= count);
  }

  until(isReached: () => boolean): Promise<void> {
    if (isReached()) return Promise.resolve();
    return new Promise((resolve) => {
      const look = () => {
        if (!isReached()) return;
        this.watchers.delete(look);
        resolve();
      };
      this.watchers.add(look);
    });
  }

  /** Resolves once the database has done what it was asked for, and what that led to. */
  async calm(): Promise<void> {
    for (let turn = 0; turn < 4; turn += 1) {
      await this.database.idle();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** The backlog once so many deliveries are pending, which the last settlements may still have to be written for. */
  async backlogOf(pending: number): Promise<readonly Backlog[]> {
    for (;;) {
      const rows = await this.store.backlog();
      if (rows.reduce((sum, row) => sum + row.pending, 0) === pending) return rows;
    }
  }

  /** Lets time pass in steps, so that the lease is renewed in between. No answer is cut off by one unless a receiver holds it. */
  async pass(ms: number, step = 1_000, isReached = () => false): Promise<void> {
    await this.answered();
    for (let left = ms; left > 0 && !isReached(); left -= step) {
      this.clock.advance(Math.min(step, left));
      await this.answered();
    }
  }

  /** Lets much time pass, in long steps. Those in which no worker has anything due but its rounds become one. */
  async passQuickly(ms: number, isReached = () => false): Promise<void> {
    const { clock, shared } = this;
    await this.answered();
    shared.leaseMore = LONG_STEP * MOST_STEPS;
    for (let left = ms; left > 0 && !isReached(); ) {
      // The first gives each worker the longer lease.
      const steps = left === ms ? 1 : this.stepsUntilDue;
      const time = Math.min(left, steps * LONG_STEP);
      const last = Math.min(time, LONG_STEP);
      clock.stall(time - last);
      clock.advance(last);
      left -= time;
      await this.answered();
    }
    shared.leaseMore = 0;
  }

  /** Long steps until something is due besides the workers' rounds. */
  private get stepsUntilDue(): number {
    const { attempts, workers } = this.shared;
    if (attempts > 0) return 1;
    const isRound = (ms: number) => this.clock.count(ms) <= workers * (ROUNDS.get(ms) ?? 0);
    const due = this.clock.untilDue((ms) => !isRound(ms));
    return Math.max(1, Math.min(this.mostSteps, Math.ceil(due / LONG_STEP)));
  }

  /** Resolves once every attempt is answered that a receiver does not hold, and what that led to is done. */
  private async answered(): Promise<void> {
    await this.calm();
    while (this.attemptsInFlight > heldAnswers() || this.database.isBusy) {
      if (!this.database.isBusy) await once(answers, 'moved');
      await this.calm();
    }
  }

  /** Of all rigs on this clock. */
  get attemptsInFlight(): number {
    return this.shared.attempts;
  }

  /** Lets time pass, in steps, until something is reached. Throws when it is not reached in `MOST_PASSES` of them. */
  async passUntil(isReached: () => boolean, step = 1_000): Promise<void> {
    for (let passes = 0; !isReached(); passes += 1) {
      if (passes === MOST_PASSES) throw await this.standstill(isReached);
      await this.pass(step, step);
    }
  }

  private async standstill(isReached: () => boolean): Promise<Error> {
    const backlog = (await this.store.backlog()).filter(({ pending, dead }) => pending + dead > 0).slice(0, 5);
    const [settled, left] = [countBy(this.verdicts), backlog].map((value) => JSON.stringify(value));
    return new Error(
      `Not reached in ${MOST_PASSES} steps: ${isReached}. Settlements: ${settled}; deliveries delivered: ${this.delivered()}; backlog: ${left}`,
    );
  }

  /** Lets time pass until an endpoint is known to be dead. */
  async untilDead(): Promise<void> {
    while ((await this.store.endpoints()).length === 0) await this.passQuickly(1_000);
  }

  deadLetters(): Promise<readonly DeadLetter[]> {
    return this.store.deadLetters({ limit: 10_000 });
  }
}
