import swagger from '@fastify/swagger';
import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import once from 'lodash/once.js';
import { answerError } from '../../http/errors.ts';
import { HIDDEN } from '../../http/schemas.ts';
import type { Audit } from '../audit.ts';
import type { Gate } from '../guard.ts';
import { made as makeFile } from '../page-files.ts';
import { sendFile } from '../pages.ts';
import { type AlertParts, alertRoutes } from './alerts.ts';
import { type AttemptParts, attemptRoutes } from './attempts.ts';
import { audienceOrderRoutes } from './audience-orders.ts';
import { type AudienceParts, audienceRoutes } from './audiences.ts';
import { type DeletionParts, deletionRoutes } from './deletions.ts';
import { type DestinationParts, destinationRoutes } from './destinations.ts';
import { type EndpointParts, endpointRoutes } from './endpoints.ts';
import { type EventLogApiParts, eventLogRoutes } from './event-log.ts';
import { eventSendRoutes, type SendApiParts } from './event-sends.ts';
import { type EventParts, eventRoutes } from './events.ts';
import { type HistoryParts, historyRoutes } from './history.ts';
import { type LetterParts, letterRoutes } from './letters.ts';
import { type MessageParts, messageRoutes } from './messages.ts';
import { type OverviewParts, overviewRoutes } from './overview.ts';
import { type PeopleParts, peopleRoutes } from './people.ts';
import { type RecordParts, recordRoutes } from './records.ts';
import { type ApiRoutes, ordering, Readers } from './route.ts';
import { type RunsApiParts, runRoutes } from './runs.ts';
import { type SessionParts, sessionRoutes } from './session.ts';
import { DONE, done } from './shapes.ts';
import { type TryParts, tryRoutes } from './try.ts';

type ManagementOptions = AlertParts &
  AttemptParts &
  AudienceParts &
  DeletionParts &
  DestinationParts &
  EndpointParts &
  EventLogApiParts &
  SendApiParts &
  EventParts &
  HistoryParts &
  LetterParts &
  MessageParts &
  OverviewParts &
  PeopleParts &
  RecordParts &
  RunsApiParts &
  SessionParts &
  TryParts & {
    readonly gate: Gate;
    readonly audit: Audit;
    /** Reloads and applies the configuration file. */
    readonly reload: () => Promise<void>;
  };

/** The management API, at `/api/v1`. */
export const managementApi: FastifyPluginAsync<ManagementOptions> = async (app, options) => {
  app.setErrorHandler(answerError);
  // The schemas serve the documentation only. Requests are checked with zod.
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => JSON.stringify);
  await document(app, options);
  const routes: ApiRoutes = { app, gate: options.gate, audit: options.audit, readers: new Readers() };
  sessionRoutes(routes, options);
  overviewRoutes(routes, options);
  alertRoutes(routes, options);
  audienceRoutes(routes, options);
  audienceOrderRoutes(routes, options);
  runRoutes(routes, options);
  endpointRoutes(routes, options);
  destinationRoutes(routes, options);
  attemptRoutes(routes, options);
  letterRoutes(routes, options);
  messageRoutes(routes, options);
  peopleRoutes(routes, options);
  recordRoutes(routes, options);
  deletionRoutes(routes, options);
  eventLogRoutes(routes, options);
  eventSendRoutes(routes, options);
  historyRoutes(routes, options);
  tryRoutes(routes, options);
  eventRoutes(routes, options);
  ordering(routes, '/config/reload', {
    summary: 'Read the configuration file again and apply it',
    tag: 'Configuration',
    answer: done,
    deed: () => ({ action: 'config.reload', target: null }),
    handle: async () => {
      await options.reload();
      return DONE;
    },
  });
};

/** An OpenAPI document of its own. The service's main document is for clients that send messages. */
async function document(app: FastifyInstance, { gate, serviceName, version }: ManagementOptions): Promise<void> {
  await app.register(swagger, {
    decorator: 'management',
    openapi: {
      openapi: '3.1.0',
      info: {
        title: `${serviceName()} management API`,
        version,
        description:
          'What the command line does with a service. Lists come in pages: ask again with `cursor` set to `next` until that is null.',
      },
      components: { securitySchemes: { adminToken: { type: 'http', scheme: 'bearer' } } },
    },
  });
  const made = once(() => {
    const { management } = app as FastifyInstance & { management(): object };
    return makeFile('openapi.json', JSON.stringify(management()));
  });
  app.get('/openapi.json', { ...HIDDEN, onRequest: gate.guard('read') }, (request, reply) =>
    sendFile(made(), request, reply),
  );
}
