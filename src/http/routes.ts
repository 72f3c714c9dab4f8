import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { Dispatcher } from 'undici';
import type { Sync } from '../../jobs/index.ts';
import type { Accept } from '../accept.ts';
import { managementApi } from '../admin/api/api.ts';
import type { Audit } from '../admin/audit.ts';
import type { standingOf } from '../admin/concerns.ts';
import { documents } from '../admin/documents.ts';
import { Gate } from '../admin/guard.ts';
import type { Metrics } from '../admin/metrics/metrics.ts';
import { metricsRoute } from '../admin/metrics-route.ts';
import { pages } from '../admin/pages.ts';
import { BrowserSessions } from '../admin/session.ts';
import { SignInLimit } from '../admin/sign-in-limit.ts';
import { hookOf, sampleAnnouncement } from '../alerts/announcement.ts';
import { collect } from '../collect/collect.ts';
import { type Discards, NOBODY } from '../collect/discards.ts';
import type { AdminToken, Config } from '../config/config.ts';
import { parseDraft } from '../config/draft.ts';
import type { Regulations } from '../deletion/regulations.ts';
import { regulations as regulationRoutes } from '../deletion/routes.ts';
import { sendTestEvent } from '../deliver/test-event.ts';
import type { Worker } from '../deliver/worker.ts';
import type { Destination } from '../destination.ts';
import type { EventSends } from '../events/sends.ts';
import { summaryOf, verifyFiles } from '../events/summary.ts';
import type { Clock } from '../kernel/clock.ts';
import { VERSION } from '../kernel/version.ts';
import { filesOf } from '../store/events/open-files.ts';
import type { RunProgress, Store } from '../store/port.ts';
import { openApi } from './openapi.ts';

interface Parts {
  readonly config: () => Config;
  readonly destinations: () => readonly Destination[];
  readonly tokens: () => readonly AdminToken[];
  readonly log: Logger;
  readonly clock: Clock;
  readonly agent: Dispatcher;
  readonly store: Store;
  readonly accept: Accept;
  readonly sync: Sync;
  readonly worker: Worker;
  readonly regulations: Regulations;
  readonly metrics: Metrics;
  readonly audit: Audit;
  readonly discards: Discards;
  readonly sends: EventSends;
  readonly reload: () => Promise<void>;
  readonly ensureRunning: () => void;
  readonly delivered: (runs: readonly string[]) => Promise<RunProgress>;
  readonly standing: () => ReturnType<typeof standingOf>;
}

/** Registers all routes except health: collection, deletion requests, management, metrics and pages. */
export async function registerRoutes(server: FastifyInstance, parts: Parts): Promise<void> {
  const { config, clock, accept, discards, metrics, ensureRunning } = parts;
  await server.register(openApi, { serviceName: config().serviceName, version: VERSION });
  await server.register(collect, {
    sources: () => config().sources,
    accept: (source, messages) => accept(source, messages, { logged: isLogged(config(), source) }),
    clock,
    onDiscard: (source, code, start) => discards.add(source ?? NOBODY, code, source === null ? null : (start ?? '')),
    onUnreadable: (source, field) => metrics.unreadable(source, field),
  });
  const session = new BrowserSessions(clock, parts.store);
  const onAdmitted = (request: FastifyRequest) => server.edge.believe(request, 'admin');
  const gate = new Gate({ tokens: parts.tokens, session, limit: new SignInLimit(clock), ensureRunning, onAdmitted });
  await registerRegulations(server, gate, parts);
  await registerAdmin(server, gate, session, parts);
}

function isLogged({ eventLog }: Config, source: string): boolean {
  return eventLog !== null && (eventLog.sources?.includes(source) ?? true);
}

async function registerRegulations(server: FastifyInstance, gate: Gate, parts: Parts): Promise<void> {
  const { config, audit, store, regulations } = parts;
  await server.register(regulationRoutes, {
    guard: gate.guard('delete'),
    hasSource: (id: string) => config().sources.some((source) => source.id === id),
    fileRegulation: (request, by) => {
      const target = `${request.type} of ${request.userIds.length}`;
      const deed = { who: gate.caller(by).name, action: 'regulation.file', target };
      return audit.during(deed, () => regulations.file({ ...request, by: deed.who }));
    },
    findRegulation: (id) => regulations.find(id),
    confirmed: (id) => store.confirmed([id]),
  });
}

async function registerAdmin(
  server: FastifyInstance,
  gate: Gate,
  session: BrowserSessions,
  parts: Parts,
): Promise<void> {
  const { config, clock, log, audit, store, sync, worker, metrics, reload } = parts;
  await server.register(documents, { guard: gate.guard('read') });
  const isOpen = () => config().admin.openMetrics;
  await server.register(metricsRoute, { gate, isOpen, registry: metrics.registry });
  await server.register(managementApi, {
    prefix: '/api/v1',
    ...{ gate, audit, session, config, clock, log, reload, store, version: VERSION },
    serviceName: () => config().serviceName,
    sync: { ...sync, log, delivered: parts.delivered },
    parseDraft: (text, edits) => parseDraft(text, config(), edits),
    currentBodies: (letters) => sync.currentBodies(letters),
    eventLog: eventLogOf(parts),
    sends: parts.sends,
    standing: parts.standing,
    destinations: parts.destinations,
    windowOf: (destination, endpoint) => worker.windowOf(destination, endpoint),
    test: (destination) => test(destination, parts),
  });
  await server.register(pages);
}

/** Posts a test event to each endpoint of a destination, bypassing the queue. */
function test(destination: Destination, { agent, clock, config }: Parts) {
  const { alerts, serviceName } = config();
  const hook = hookOf(alerts, destination.name);
  const bodies = hook && [sampleAnnouncement(hook, alerts.link, clock.now())];
  return sendTestEvent(destination, { agent, clock, serviceName, bodies });
}

function eventLogOf({ config, store, clock }: Parts) {
  return {
    summary: async () => (config().eventLog === null ? null : summaryOf(store.events)),
    verify: async () => {
      const { eventLog } = config();
      const { events } = store;
      if (eventLog === null || events.kind === 'table') return null;
      const newToken = () => clock.token(8);
      const faults = await verifyFiles(events, filesOf(eventLog), newToken, () => {});
      return { files: (await summaryOf(events)).files ?? 0, faults: [...faults] };
    },
  };
}
