import type { FastifyPluginAsync } from 'fastify';
import type { Registry } from 'prom-client';
import { answerError } from '../http/errors.ts';
import type { Gate } from './guard.ts';

interface MetricsRouteOptions {
  readonly gate: Gate;
  readonly registry: Registry;
}

export const metricsRoute: FastifyPluginAsync<MetricsRouteOptions> = async (app, { gate, registry }) => {
  app.setErrorHandler(answerError);
  app.get('/metrics', { schema: { hide: true }, onRequest: gate.guard('read') }, async (_request, reply) => {
    reply.type(registry.contentType);
    return registry.metrics();
  });
};
