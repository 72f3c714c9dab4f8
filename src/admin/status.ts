import type { FastifyPluginAsync } from 'fastify';
import type { Registry } from 'prom-client';
import type { Config } from '../config/config.ts';
import { answerError } from '../http/errors.ts';
import type { Store } from '../store/port.ts';
import type { Audit } from './audit.ts';
import { endpointStatuses } from './endpoints.ts';
import type { Gate } from './guard.ts';

interface StatusOptions {
  readonly gate: Gate;
  readonly audit: Audit;
  readonly registry: Registry;
  readonly store: Pick<Store, 'time' | 'backlog' | 'endpoints'>;
  readonly config: () => Config;
  /** Reads the configuration file again and applies it. */
  readonly reload: () => Promise<void>;
}

/** Metrics, and two addresses from before there was a management API. */
export const statusRoutes: FastifyPluginAsync<StatusOptions> = async (app, options) => {
  const { gate, audit, registry, store, config, reload } = options;
  app.setErrorHandler(answerError);
  const schema = { hide: true };
  const read = { schema, onRequest: gate.guard('read') };
  app.get('/metrics', read, async (_request, reply) => {
    reply.type(registry.contentType);
    return registry.metrics();
  });
  app.get('/api/endpoints', read, () => endpointStatuses(store, config().destinations));
  app.post('/api/reload', { schema, onRequest: gate.guard('operate') }, async (request) => {
    await audit.during({ who: gate.caller(request).name, action: 'config.reload', target: null }, reload);
    return { success: true };
  });
};
