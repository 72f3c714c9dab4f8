import { once } from 'node:events';
import type { Test } from 'tap';
import type { Dispatcher } from 'undici';
import { type Accept, createAccept } from '../../../src/accept.ts';
import { type AgentOptions, createAgent } from '../../../src/deliver/http/agent.ts';
import { Worker } from '../../../src/deliver/worker.ts';
import type { WorkerStore } from '../../../src/deliver/worker-options.ts';
import { type Destination, endpointId } from '../../../src/destination.ts';
import type { RollcallError } from '../../../src/errors.ts';
import { type Logger, silentLogger } from '../../../src/log.ts';
import type { Message } from '../../../src/message.ts';
import type { Backlog, DeadLetter, EndpointState, Settlement, Store } from '../../../src/store/port.ts';
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

/** In milliseconds. */
const LONG_STEP = 9_000;
let made = 0;
/** Attempts that are not over, of all rigs on a clock. */
const inFlight = new WeakMap<ManualClock, { count: number }>();

function inFlightOn(clock: ManualClock): { count: number } {
  const found = inFlight.get(clock) ?? { count: 0 };
  inFlight.set(clock, found);
  return found;
}

/** Counts the attempts that go through an agent. */
function counted(agent: Dispatcher, attempts: { count: number }): Dispatcher {
  return agent.compose((dispatch) => (options, handler) => {
    let isOver = false;
    const over = () => {
      if (!isOver) attempts.count -= 1;
      isOver = true;
      answers.emit('moved');
    };
    attempts.count += 1;
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
  readonly onRefusing?: (state: EndpointState) => void;
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
  private readonly inFlight: { readonly count: number };
  private readonly watchers = new Set<() => void>();
  private readonly end: () => Promise<void>;
  private ended: Promise<void> | null = null;

  private constructor(options: RigOptions, database: TestDatabase, store: Store) {
    const { clock } = database;
    this.clock = clock;
    this.database = database;
    this.store = store;
    this.destinations = options.destinations;
    this.inFlight = inFlightOn(clock);
    const agent = counted(
      createAgent({ allow: ['127.0.0.0/8'], ca: [], proxy: null, ...options.network }),
      this.inFlight,
    );
    this.worker = new Worker({
      store: options.workerStore?.(store) ?? store,
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
      ...(options.onRefusing ? { onRefusing: options.onRefusing } : {}),
      onSettled: (settlement) => {
        this.settlements.push(settlement);
        for (const look of this.watchers) look();
      },
    });
    this.accept = createAccept(store, () => this.destinations, this.worker);
    this.end = async () => {
      await this.worker.stop();
      if (!options.database) await database.close();
      await agent.destroy();
    };
  }

  static async start(t: Test, options: RigOptions): Promise<Rig> {
    const database = options.database ?? (await testDatabase(t, new ManualClock()));
    const rig = new Rig(options, database, await database.open());
    t.teardown(() => rig.stopInTime());
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

  /** Lets much time pass, in steps as long as they may be without the lease being lost. */
  passQuickly(ms: number, isReached?: () => boolean): Promise<void> {
    return this.pass(ms, LONG_STEP, isReached);
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
    return this.inFlight.count;
  }

  /** Lets time pass, in steps, until something is reached. */
  async passUntil(isReached: () => boolean, step = 1_000): Promise<void> {
    while (!isReached()) await this.pass(step, step);
  }

  /** Lets time pass until an endpoint is known to be dead. */
  async untilDead(): Promise<void> {
    while ((await this.store.endpoints()).length === 0) await this.passQuickly(1_000);
  }

  deadLetters(): Promise<readonly DeadLetter[]> {
    return this.store.deadLetters({ limit: 10_000 });
  }
}
