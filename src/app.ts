import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Dispatcher } from 'undici';
import { createSync, type Progress, type Sync } from '../jobs/index.ts';
import { aboutOf } from './about.ts';
import { type Accept, createAccept } from './accept.ts';
import { Audit } from './admin/audit.ts';
import { standingOf } from './admin/concerns.ts';
import { createMetrics, type Metrics } from './admin/metrics/metrics.ts';
import { isFailure } from './admin/metrics/syncs.ts';
import { awaitDeliveries } from './admin/run-deliveries.ts';
import { signInLink } from './admin/sign-in-link.ts';
import { ensureAdminTokens } from './admin/token-file.ts';
import { alertDestinations } from './alerts/announcement.ts';
import { AlertWatch } from './alerts/watch.ts';
import { Discards } from './collect/discards.ts';
import type { Concern } from './concern.ts';
import type { AdminToken, Config } from './config/config.ts';
import { Confirmations } from './deletion/confirmations.ts';
import { Regulations } from './deletion/regulations.ts';
import { destinationsOfFleet } from './deliver/fleet.ts';
import { createAgent } from './deliver/http/agent.ts';
import { Worker } from './deliver/worker.ts';
import { DeliveryLog } from './delivery-log.ts';
import type { Destination } from './destination.ts';
import type { Erasure } from './events/erasure.ts';
import { EventLogKeeper } from './events/keeper.ts';
import { EventSends } from './events/sends.ts';
import { History } from './history/history.ts';
import { type Clock, systemClock } from './kernel/clock.ts';
import { RollcallError } from './kernel/errors.ts';
import { observedAccept } from './observed-accept.ts';
import { integrationEnabled } from './route/route.ts';
import { type DeletedIds, linksOfBoth, resolveIds } from './store/deleted-ids.ts';
import { filesOf } from './store/events/open-files.ts';
import { messageLinks } from './store/message-links.ts';
import { openStore } from './store/open.ts';
import { DISCARDS_KEPT, type RunProgress, type Store } from './store/port.ts';

interface AppOptions {
  readonly log: Logger;
  readonly clock?: Clock;
  /** Reads the configuration file again, for a reload; throws `bad_configuration`. */
  readonly readConfig?: () => Config;
  readonly onProgress?: (progress: Progress) => void;
  /** Set for a command, which may run while the service does. Called with the reason for which it waits. */
  readonly onWait?: (message: string) => void;
}

interface StartOptions {
  readonly collect: boolean;
  readonly schedules: boolean;
  /** True to end renamed audiences under their former names without being held for a person. */
  readonly renames?: boolean;
}

/** The whole service: knows every part, starts them in order and stops them in reverse, except collection, which ends late. */
export class App {
  readonly store: Store;
  readonly accept: Accept;
  readonly sync: Sync;
  readonly regulations: Regulations;
  readonly metrics: Metrics;
  readonly audit: Audit;
  readonly sends: EventSends;
  private readonly history: History;
  private readonly deliveryLog: DeliveryLog;
  private readonly confirmations: Confirmations;
  /**
   * Rejects when a part has failed for good and the service can't go on. The caller should then close the app and exit
   * with an error, so that a supervisor restarts the process. Never resolves.
   */
  readonly failed: Promise<never>;
  address: string | null = null;
  private config: Config;
  private readonly options: AppOptions;
  private readonly clock: Clock;
  private readonly agent: Dispatcher;
  private readonly discards: Discards;
  /** Null if no event log is kept. */
  private readonly events: EventLogKeeper | null;
  private readonly worker: Worker;
  private readonly alerts: AlertWatch;
  private server: FastifyInstance | null = null;
  /** Tokens of the admin routes. Empty if none is set and none could be made. */
  private tokens: readonly AdminToken[] = [];
  private starting: Promise<void> = Promise.resolve();
  /** The steady clock's time when live messages last came in. */
  private lastLive = Number.NEGATIVE_INFINITY;
  private started = false;
  /** The options that schedules were started with; null if they were not started. */
  private scheduling: { readonly renames: boolean } | null = null;
  private cancelResume = () => {};
  private stopping = false;
  private readonly closing = new AbortController();
  private readonly failure = Promise.withResolvers<never>();
  /** The error that ended the service, if any. */
  private fault: RollcallError | null = null;
  private damage: RollcallError | null = null;

  private constructor(config: Config, store: Store, options: AppOptions) {
    const { log, clock = systemClock } = options;
    this.failed = this.failure.promise;
    // An embedding program need not handle it.
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
      bucketTraffic: config.eventLog && filesOf(config.eventLog).traffic,
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
    this.sends = this.createSends();
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
    const onLive = (at: number) => {
      this.lastLive = at;
    };
    return observedAccept(accept, { clock, metrics, log: this.options.log, alive: () => this.alive(), onLive });
  }

  private createSync(): Sync {
    const { store, accept, clock } = this;
    const { log, onProgress, onWait } = this.options;
    return createSync({
      ...{ store, accept, clock, log, onWait },
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
      ...{ store, live: store.live, clock, log: this.options.log, files: filesOf(eventLog) },
      keep: () => this.config.eventLog?.keep ?? Number.POSITIVE_INFINITY,
      onFailure: () => this.metrics.logFailed(),
    });
  }

  private createSends(): EventSends {
    const { store, accept, clock, metrics } = this;
    const { eventLog } = this.config;
    return new EventSends({
      ...{ store, accept, clock, log: this.options.log, files: eventLog && filesOf(eventLog) },
      destinations: () => this.config.destinations,
      isEnabledBy: integrationEnabled,
      onQueued: (destination, events) => metrics.pastEvents(destination, events),
      lastLive: () => this.lastLive,
    });
  }

  private createAlerts(): AlertWatch {
    const { store, clock, accept } = this;
    return new AlertWatch({
      ...{ store, clock, log: this.options.log, accept },
      config: () => this.config.alerts,
      aboutOf: ({ audience, destination }) => {
        const { audiences, traits, destinations } = this.config;
        const named = [...audiences, ...traits].find(({ key }) => key === audience);
        return aboutOf(named ?? destinations.find(({ name }) => name === destination) ?? {});
      },
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
      resolveIds: (users) => this.resolveIds(users),
      eraseFromLog: (requests) => this.eraseFromLog(requests),
      forgetInEngines: (ids, sources) =>
        this.sync.forget(ids, sources, () => (this.events ?? this.store.events).names(ids)),
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

  /** Starts delivery always, collection and schedules on request. */
  async start(options: StartOptions): Promise<void> {
    const starting = this.startParts(options);
    this.starting = starting.catch(() => {});
    await starting;
    this.started = true;
  }

  private async startParts({ collect: collects, schedules, renames = false }: StartOptions): Promise<void> {
    // While the store is damaged, a collecting process stays up and answers with errors. Others have nothing to do.
    if (this.damage && !collects) throw this.damage;
    if (collects) this.tokens = this.tokensOf(this.config);
    if (collects || schedules) this.logWarnings();
    if (!this.damage && (collects || schedules)) await this.events?.insist();
    // First, so that nothing is delivered by a process whose port is taken.
    if (collects && !this.stopping) await this.listen();
    if (!this.damage) {
      await this.worker.start(collects || schedules);
      this.history.start();
      if (collects || schedules) await this.sync.configured();
      await this.resumeRegulations();
    }
    this.scheduling = schedules ? { renames } : null;
    if (schedules && !this.damage && !this.stopping) await this.sync.start(renames);
    if ((collects || schedules) && !this.damage) {
      void this.events?.start();
      this.alerts.start();
      this.sends.start();
    }
    if (collects || schedules) this.lookForDamage();
  }

  private tokensOf(config: Config): readonly AdminToken[] {
    try {
      return ensureAdminTokens(config, this.clock);
    } catch (error) {
      if (!(error instanceof RollcallError && error.code === 'no_admin_token')) throw error;
      const { code, message } = error;
      this.options.log.error({ code }, `The pages and the management API are off. ${message}`);
      return [];
    }
  }

  /** A link that signs a browser in once. Null if nothing listens, or there is no token. */
  signInLink(): string | null {
    return this.address === null ? null : signInLink(this.address, this.tokens, this.clock);
  }

  private logWarnings(): void {
    for (const { path, file, line, message } of this.config.warnings)
      this.options.log.warn({ path, file, line }, `The configuration's ${path} ${message}`);
  }

  /** Checks in the background: a large store takes a while. Damage is also reported by `onDamaged`. */
  private lookForDamage(): void {
    this.store.check(false).catch((error) => {
      if (!this.stopping) this.options.log.warn({ err: error }, 'The store could not be checked for damage');
    });
  }

  /**
   * Applies changed destinations, sources and audiences. The log names changed settings that need a restart.
   *
   * @throws RollcallError `stopping`
   */
  async reload(config: Config): Promise<void> {
    this.ensureRunning();
    const applying = this.apply(config);
    // `close` waits for this: schedules started after it would run for ever.
    this.starting = Promise.allSettled([this.starting, applying]).then(() => {});
    await applying;
  }

  private async apply(config: Config): Promise<void> {
    if (this.server) this.tokens = this.tokensOf(config);
    const fixed = ['store', 'files', 'listen', 'network', 'serviceName', 'eventLog'] as const;
    const restart = fixed.filter((name) => JSON.stringify(config[name]) !== JSON.stringify(this.config[name]));
    if (restart.length > 0) this.options.log.warn({ restart }, 'These settings take effect after a restart');
    if (config.logLevel !== this.config.logLevel) this.options.log.level = config.logLevel;
    this.config = { ...config, ...Object.fromEntries(fixed.map((name) => [name, this.config[name]])) };
    this.logWarnings();
    this.worker.configure(this.destinations());
    // Each run retries what could not be written here.
    await this.sync
      .configured()
      .catch((err) =>
        this.options.log.warn({ err }, 'Could not number the new configuration in the store; the next run retries'),
      );
    if (this.scheduling) await this.sync.start(this.scheduling.renames);
    this.options.log.info({ destinations: config.destinations.length }, 'Configuration reloaded');
  }

  /**
   * Waits until every delivery of these runs is delivered, dead, waiting for a retry, or queued for an endpoint that accepts
   * nothing. Resolves to their progress then, or when the app closes.
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

  /** Sends batches without waiting for more messages: for a command that has queued all of its own. */
  expectNoMore(): void {
    this.worker.expectNoMore();
  }

  /** Sends due alerts once, at the end of a command that does not keep running. */
  alert(): Promise<void> {
    return this.alerts.once();
  }

  /**
   * Stops the sync, then delivery once requests in flight have ended, and collection last: until then `/readyz` sends load
   * balancers elsewhere, and messages that still arrive are accepted.
   */
  async close(): Promise<void> {
    if (this.stopping) return;
    this.stopping = true;
    this.closing.abort();
    // A server closed before it listens would still start to listen.
    await this.starting;
    await this.sync.stop();
    await this.sends.stop();
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
   * Handles a damaged store: it refuses new messages, and nothing more is delivered, since results could not be written.
   * A restart would not help, so a process that serves requests stays up and reports the damage.
   */
  private stopForDamage(error: RollcallError): void {
    if (this.damage !== null || this.stopping) return;
    this.damage = error;
    this.options.log.error({ code: error.code, err: error }, error.message);
    this.worker.giveUp();
    void this.worker.stop().catch((cause) => this.options.log.warn({ err: cause }, 'Delivery did not stop cleanly'));
    if (this.started && this.server === null) this.fail(error);
  }

  /** Handles a part that failed for good. Nothing more is accepted or posted, since it could not be recorded. */
  private fail(error: RollcallError): void {
    if (this.fault !== null) return;
    this.fault = error;
    const { code } = error;
    this.options.log.fatal({ code, err: error }, `Rollcall can't continue and is shutting down: ${error.message}`);
    this.worker.giveUp();
    this.failure.reject(error);
  }

  /**
   * The state of all parts, with the concerns that need a person.
   *
   * @param before - concerns of the previous check
   */
  standing(before: readonly Concern[] = []) {
    const { store, clock, sync, config } = this;
    const destinations = this.destinations();
    const { rules } = config.alerts;
    const sources = config.sources.map(({ id }) => id);
    const logTrouble = this.events?.trouble ?? null;
    return standingOf({
      ...{ store, audiences: sync.audiences, destinations, sources, rules, now: clock.now(), before, logTrouble },
    });
  }

  /** The log knows more than the messages that are still kept, but may not have those of every source. */
  private async resolveIds(users: readonly (readonly string[])[]): Promise<readonly DeletedIds[]> {
    const { store, config } = this;
    const logged = config.eventLog ? (config.eventLog.sources ?? config.sources.map(({ id }) => id)) : [];
    const kept = messageLinks(store, (source) => !logged.includes(source));
    if (this.events) return this.events.linked((links) => resolveIds(linksOfBoth(links, kept), users));
    const { events } = store;
    return resolveIds(events.kind === 'table' ? linksOfBoth(events.links, kept) : kept, users);
  }

  /** An event log in the store is erased from even if it is no longer written. */
  private async eraseFromLog(requests: readonly Erasure[]): Promise<void> {
    const { events } = this.store;
    if (this.events) await this.events.erase(requests);
    else if (events.kind === 'table') for (const { ids, sources } of requests) await events.forget(ids, sources);
  }

  /** Configured destinations, and those of alerts. */
  destinations(): readonly Destination[] {
    return this.allDestinations.of(this.config);
  }

  /** Keeps the list, so that it is the same as long as the configuration is. */
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
    const { clock, agent, store, accept, sync, worker, regulations, metrics, audit, discards, sends } = this;
    const health = { alive: () => this.alive(), ready: () => this.ready() };
    // Loaded only here: commands that answer no requests start in four fifths of the time.
    const { createHttpServer, startListening } = await import('./http/server.ts');
    const { registerRoutes } = await import('./http/routes.ts');
    const server = createHttpServer(log, health, this.config.listen.trustedProxies, clock, {
      onRefused: (reason) => metrics.connectionRefused(reason),
    });
    await registerRoutes(server, {
      ...{ log, clock, agent, store, accept, sync, worker, regulations, metrics, audit, discards, sends },
      config: () => this.config,
      destinations: () => this.destinations(),
      tokens: () => this.tokens,
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

  /** Resumes deletion requests that another process filed and did not finish, now and at intervals. */
  private async resumeRegulations(): Promise<void> {
    await this.regulations
      .resume()
      .catch((error) => this.options.log.warn({ err: error }, 'Could not check for deletion requests; retrying'));
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

/** Milliseconds between two checks for unfinished deletion requests. */
const REGULATION_INTERVAL = 30_000;
