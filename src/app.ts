import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Dispatcher } from 'undici';
import { createSync, type Progress, type Sync } from '../jobs/index.ts';
import { type Accept, createAccept } from './accept.ts';
import { Audit } from './admin/audit.ts';
import { standingOf } from './admin/concerns.ts';
import { createMetrics, type Metrics } from './admin/metrics/metrics.ts';
import { isFailure } from './admin/metrics/syncs.ts';
import { awaitDeliveries } from './admin/run-deliveries.ts';
import { alertDestinations } from './alerts/announcement.ts';
import { AlertWatch } from './alerts/watch.ts';
import { Discards } from './collect/discards.ts';
import type { Concern } from './concern.ts';
import type { Config } from './config/config.ts';
import { Confirmations } from './deletion/confirmations.ts';
import { Regulations } from './deletion/regulations.ts';
import { destinationsOfFleet } from './deliver/fleet.ts';
import { createAgent } from './deliver/http/agent.ts';
import { Worker } from './deliver/worker.ts';
import { DeliveryLog } from './delivery-log.ts';
import type { Destination } from './destination.ts';
import type { Erasure } from './events/erasure.ts';
import { EventLogKeeper } from './events/keeper.ts';
import { History } from './history/history.ts';
import { type Clock, systemClock } from './kernel/clock.ts';
import { RollcallError } from './kernel/errors.ts';
import { observedAccept } from './observed-accept.ts';
import { openStore } from './store/open.ts';
import { DISCARDS_KEPT, type RunProgress, type Store } from './store/port.ts';

interface AppOptions {
  readonly log: Logger;
  readonly clock?: Clock;
  /** Reads the configuration file again, for a reload; throws `bad_configuration`. */
  readonly readConfig?: () => Config;
  readonly onProgress?: (progress: Progress) => void;
}

/** Which parts of the service to start. */
interface StartOptions {
  readonly collect: boolean;
  readonly schedules: boolean;
  /** Whether renamed audiences end under their former names without being held for a person. */
  readonly renames?: boolean;
}

/** The whole service: knows every part, starts them in order and stops them in reverse, but for collection, which ends late. */
export class App {
  readonly store: Store;
  readonly accept: Accept;
  readonly sync: Sync;
  readonly regulations: Regulations;
  readonly metrics: Metrics;
  readonly audit: Audit;
  private readonly history: History;
  private readonly deliveryLog: DeliveryLog;
  private readonly confirmations: Confirmations;
  /**
   * Rejects when a part has ended for good and the service can't go on. Then close it, and end the process with an
   * error, so that its supervisor starts it again. It never resolves.
   */
  readonly failed: Promise<never>;
  /** The address that collection answers at, once started. */
  address: string | null = null;
  private config: Config;
  private readonly options: AppOptions;
  private readonly clock: Clock;
  private readonly agent: Dispatcher;
  private readonly discards: Discards;
  /** Null where no log is kept. */
  private readonly events: EventLogKeeper | null;
  private readonly worker: Worker;
  private readonly alerts: AlertWatch;
  private server: FastifyInstance | null = null;
  private starting: Promise<void> = Promise.resolve();
  private started = false;
  /** The options that schedules were started with; null without any. */
  private scheduling: { readonly renames: boolean } | null = null;
  private cancelResume = () => {};
  private stopping = false;
  /** Aborts with the beginning of the end. */
  private readonly closing = new AbortController();
  private readonly failure = Promise.withResolvers<never>();
  /** Why it can't go on. */
  private fault: RollcallError | null = null;
  /** The damage of the store, if there is any. */
  private damage: RollcallError | null = null;

  private constructor(config: Config, store: Store, options: AppOptions) {
    const { log, clock = systemClock } = options;
    this.failed = this.failure.promise;
    // An embedding program may look at it, and need not.
    this.failed.catch(() => {});
    this.config = config;
    this.options = options;
    this.store = store;
    this.clock = clock;
    this.history = new History({ store, live: store.live, clock, log });
    this.metrics = createMetrics({
      store,
      live: store.live,
      deliveries: this.history.tally,
      storeTime: () => store.time.now(),
      eventLog: config.eventLog && store.events,
      clock,
      destinations: () => this.config.destinations,
      audiences: () => this.sync.audiences(),
      keys: () => [...this.config.audiences, ...this.config.traits].map(({ key }) => key),
    });
    this.audit = new Audit(store, () => clock.now(), log);
    this.deliveryLog = new DeliveryLog(log, clock);
    this.confirmations = new Confirmations({ store, clock, log });
    this.agent = createAgent(config.network);
    this.worker = this.createWorker();
    this.accept = this.createAccept();
    this.sync = this.createSync();
    this.discards = this.createDiscards();
    this.events = this.createEventLog();
    this.alerts = this.createAlerts();
    this.regulations = this.createRegulations();
  }

  private createWorker(): Worker {
    const { store, clock, agent } = this;
    return new Worker({
      ...{ store, clock, agent, serviceName: this.config.serviceName },
      destinations: this.destinations(),
      attemptRetention: () => this.config.attemptRetention,
      recordRetention: () => this.config.recordRetention,
      messageRetention: () => this.config.messages,
      removedAfter: () => this.config.delivery.removedAfter,
      log: this.options.log,
      onSettled: (settlement) => {
        this.history.tally.settled(settlement);
        this.deliveryLog.settled(settlement);
        this.confirmations.settled(settlement);
      },
      onFatal: (error) => this.fail(error),
    });
  }

  private createAccept(): Accept {
    const destinations = () => this.destinations();
    const accept = createAccept(this.store, destinations, this.worker, (...batch) => this.history.accepted(...batch));
    const { clock, metrics } = this;
    return observedAccept(accept, { clock, metrics, log: this.options.log, alive: () => this.alive() });
  }

  private createSync(): Sync {
    const { store, accept, clock } = this;
    const { log, onProgress } = this.options;
    return createSync({
      ...{ store, accept, clock, log },
      config: () => this.config,
      ...(onProgress ? { onProgress } : {}),
      onReport: (report) => {
        this.metrics.reported(report);
        this.history.reported({ ...report, failed: isFailure(report) });
      },
      onLiveStep: (step) => {
        this.metrics.liveStep(step);
        this.history.moved(step.moved);
      },
    });
  }

  private createDiscards(): Discards {
    return new Discards({
      clock: this.clock,
      log: this.options.log,
      save: (samples) => this.store.saveDiscards(samples),
      onDiscard: (source, code) => {
        this.metrics.discarded(source, code);
        this.history.discarded(source);
      },
      kept: DISCARDS_KEPT,
    });
  }

  private createEventLog(): EventLogKeeper | null {
    const { store, clock } = this;
    const { eventLog } = this.config;
    if (eventLog === null) return null;
    return new EventLogKeeper({
      ...{ store, live: store.live, clock, log: this.options.log, folder: eventLog.path },
      keep: () => this.config.eventLog?.keep ?? Number.POSITIVE_INFINITY,
      onFailure: () => this.metrics.logFailed(),
    });
  }

  private createAlerts(): AlertWatch {
    const { store, clock, accept } = this;
    return new AlertWatch({
      ...{ store, clock, log: this.options.log, accept },
      config: () => this.config.alerts,
      concerns: async (before) => (await this.standing(before)).concerns,
    });
  }

  private createRegulations(): Regulations {
    const { store, clock, accept } = this;
    return new Regulations({
      ...{ store, clock, log: this.options.log, accept },
      giveBack: () => this.worker.giveBackStock(),
      sources: () => this.config.sources,
      destinations: () => this.config.destinations,
      elsewhere: () => destinationsOfFleet(store),
      toldByEngines: (users, sources) => this.sync.told(users, sources),
      eraseFromLog: (requests) => this.eraseFromLog(requests),
      forgetInEngines: (users, sources) => this.sync.forget(users, sources),
    });
  }

  /** Opens the store and builds the parts; nothing runs yet. */
  static async create(config: Config, options: AppOptions): Promise<App> {
    const [fatal, damage] = [Promise.withResolvers<RollcallError>(), Promise.withResolvers<RollcallError>()];
    const events = { onFatal: fatal.resolve, onDamaged: damage.resolve };
    const app = new App(config, await openStore(config.store, options.clock ?? systemClock, events), options);
    void fatal.promise.then((error) => app.fail(error));
    void damage.promise.then((error) => app.stopForDamage(error));
    return app;
  }

  /** Delivery always runs; collection and schedules as asked for. */
  async start(options: StartOptions): Promise<void> {
    const starting = this.startParts(options);
    this.starting = starting.catch(() => {});
    await starting;
    this.started = true;
  }

  private async startParts({ collect: collects, schedules, renames = false }: StartOptions): Promise<void> {
    // A process that collects answers that it can't, for as long as the store is damaged; others have nothing to do.
    if (this.damage && !collects) throw this.damage;
    if (collects || schedules) this.logWarnings();
    if (!this.damage) {
      await this.worker.start(collects || schedules);
      this.history.start();
      if (collects || schedules) await this.sync.configured();
      await this.resumeRegulations();
    }
    if (collects && !this.stopping) await this.listen();
    this.scheduling = schedules ? { renames } : null;
    if (schedules && !this.damage && !this.stopping) await this.sync.start(renames);
    if ((collects || schedules) && !this.damage) {
      void this.events?.start();
      this.alerts.start();
    }
    if (collects || schedules) this.lookForDamage();
  }

  private logWarnings(): void {
    for (const { path, line, message } of this.config.warnings)
      this.options.log.warn({ path, line }, `The configuration's ${path} ${message}`);
  }

  /** In the background: a large store takes its time. What it finds, it also reports as an event. */
  private lookForDamage(): void {
    this.store.check(false).catch((error) => {
      if (!this.stopping) this.options.log.warn({ err: error }, 'The store could not be checked for damage');
    });
  }

  /**
   * Applies a changed configuration: destinations, sources, audiences; what needs a restart is named in the log.
   *
   * @throws RollcallError `stopping`
   */
  async reload(config: Config): Promise<void> {
    this.ensureRunning();
    const applying = this.apply(config);
    // The end waits: schedules that started after it would go on for ever.
    this.starting = Promise.allSettled([this.starting, applying]).then(() => {});
    await applying;
  }

  private async apply(config: Config): Promise<void> {
    const fixed = ['store', 'listen', 'network', 'serviceName', 'eventLog'] as const;
    const restart = fixed.filter((name) => JSON.stringify(config[name]) !== JSON.stringify(this.config[name]));
    if (restart.length > 0) this.options.log.warn({ restart }, 'These settings apply from the next start');
    if (config.logLevel !== this.config.logLevel) this.options.log.level = config.logLevel;
    this.config = { ...config, ...Object.fromEntries(fixed.map((name) => [name, this.config[name]])) };
    this.logWarnings();
    this.worker.configure(this.destinations());
    // Each run asks again what this one could not write.
    await this.sync
      .configured()
      .catch((err) =>
        this.options.log.warn({ err }, 'The store did not number the new configuration; the next run asks again'),
      );
    if (this.scheduling) await this.sync.start(this.scheduling.renames);
    this.options.log.info({ destinations: config.destinations.length }, 'Configuration reloaded');
  }

  /**
   * Waits until every delivery of these runs is delivered, dead or waiting for a retry, or behind an endpoint that takes
   * nothing. Resolves to how far they are then, or when the app closes.
   */
  delivered(runs: readonly string[]): Promise<RunProgress> {
    const { store, clock } = this;
    return awaitDeliveries(runs, {
      store,
      clock,
      destinations: () => this.destinations(),
      signal: this.closing.signal,
    });
  }

  /** For a command that has done all that it will: no batch waits for more. */
  expectNoMore(): void {
    this.worker.expectNoMore();
  }

  /** Tells people what needs them, at the end of a command that does not stay. */
  alert(): Promise<void> {
    return this.alerts.once();
  }

  /**
   * Stops the sync, then delivery once what is in flight has ended, and intake last: until then `/readyz` sends load balancers
   * elsewhere, and what they still send is taken.
   */
  async close(): Promise<void> {
    if (this.stopping) return;
    this.stopping = true;
    this.closing.abort();
    // A server that is closed before it listens would listen all the same.
    await this.starting;
    await this.sync.stop();
    this.cancelResume();
    await this.alerts.stop();
    await this.regulations.close();
    await this.worker.stop();
    await this.server?.close();
    await this.discards.flush();
    if (!this.damage && !this.fault) await this.events?.stop();
    await this.confirmations.flush();
    if (!this.damage && !this.fault) await this.history.stop();
    this.deliveryLog.flush();
    await this.store.close();
    await this.agent.close();
  }

  /**
   * The store is damaged: it refuses what is new, and nothing more is delivered, since what became of it could not be
   * written. Starting again would not help, so the process stays and says so, if there is anyone to say it to.
   */
  private stopForDamage(error: RollcallError): void {
    if (this.damage !== null || this.stopping) return;
    this.damage = error;
    this.options.log.error({ code: error.code, err: error }, error.message);
    this.worker.giveUp();
    void this.worker.stop().catch((cause) => this.options.log.warn({ err: cause }, 'Delivery did not stop cleanly'));
    if (this.started && this.server === null) this.fail(error);
  }

  /** A part has ended for good. Nothing more is taken or posted, since nothing of it could be written. */
  private fail(error: RollcallError): void {
    if (this.fault !== null) return;
    this.fault = error;
    const { code } = error;
    this.options.log.fatal({ code, err: error }, `Rollcall can't go on and ends: ${error.message}`);
    this.worker.giveUp();
    this.failure.reject(error);
  }

  /**
   * How everything stands, with what needs a person.
   *
   * @param before - of the last look
   */
  standing(before: readonly Concern[] = []) {
    const { store, clock, sync, config } = this;
    const destinations = this.destinations();
    const { rules } = config.alerts;
    const sources = config.sources.map(({ id }) => id);
    return standingOf({ store, audiences: sync.audiences, destinations, sources, rules, now: clock.now(), before });
  }

  /** A log that is in the store is there, whether or not it is still written. */
  private async eraseFromLog(requests: readonly Erasure[]): Promise<void> {
    const { events } = this.store;
    if (this.events) await this.events.erase(requests);
    else if (events.kind === 'table') for (const { users, sources } of requests) await events.forget(users, sources);
  }

  /** Those that are configured, and those that alerts go to. */
  destinations(): readonly Destination[] {
    return this.allDestinations.of(this.config);
  }

  /** The same list as long as the configuration is the same. */
  private readonly allDestinations = {
    config: null as Config | null,
    list: [] as readonly Destination[],
    of(config: Config): readonly Destination[] {
      if (this.config !== config) this.list = [...config.destinations, ...alertDestinations(config.alerts)];
      this.config = config;
      return this.list;
    },
  };

  private async listen(): Promise<void> {
    const { log, readConfig } = this.options;
    const { clock, agent, store, accept, sync, worker, regulations, metrics, audit, discards } = this;
    const health = { alive: () => this.alive(), ready: () => this.ready() };
    // Loaded only here: commands that answer no requests start in four fifths of the time.
    const { createHttpServer, startListening } = await import('./http/server.ts');
    const { registerRoutes } = await import('./http/routes.ts');
    const server = createHttpServer(log, health, this.config.listen.trustedProxies, clock);
    await registerRoutes(server, {
      ...{ log, clock, agent, store, accept, sync, worker, regulations, metrics, audit, discards },
      config: () => this.config,
      destinations: () => this.destinations(),
      reload: async () => {
        if (readConfig) await this.reload(readConfig());
      },
      ensureRunning: () => this.ensureRunning(),
      delivered: (runs) => this.delivered(runs),
      standing: () => this.standing(),
    });
    server.server.once('close', () => {
      if (!this.stopping) this.fail(new RollcallError('internal_error', 'The HTTP server has closed.'));
    });
    this.server = server;
    this.address = await startListening(server, this.config.listen);
    log.info({ stage: 'collect', address: this.address }, 'Listening');
  }

  /** Takes up deletion requests that another process filed and did not finish, now and from time to time. */
  private async resumeRegulations(): Promise<void> {
    await this.regulations
      .resume()
      .catch((error) => this.options.log.warn({ err: error }, 'Could not look for deletion requests'));
    this.cancelResume = this.clock.after(REGULATION_INTERVAL, () => void this.resumeRegulations());
    if (this.stopping) this.cancelResume();
  }

  private alive(): void {
    if (this.fault) throw new RollcallError('stopping', 'Rollcall has failed and ends; its log says why.');
  }

  private ensureRunning(): void {
    if (this.stopping) throw new RollcallError('stopping', 'Rollcall is stopping.');
  }

  private async ready(): Promise<void> {
    this.ensureRunning();
    this.alive();
    await this.store.ping();
  }
}

/** How often unfinished deletion requests are looked for, in milliseconds. */
const REGULATION_INTERVAL = 30_000;
