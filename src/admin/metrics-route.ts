import type { FastifyPluginAsync } from 'fastify';
import type { Registry } from 'prom-client';
import { answerError } from '../http/errors.ts';
import type { Gate } from './guard.ts';
import { sharedLook } from './shared-look.ts';

interface MetricsRouteOptions {
  readonly gate: Gate;
  readonly registry: Registry;
}

export const metricsRoute: FastifyPluginAsync<MetricsRouteOptions> = async (app, { gate, registry }) => {
  app.setErrorHandler(answerError);
  const metrics = sharedLook(() => registry.metrics());
  app.get('/metrics', { schema: { hide: true }, onRequest: gate.guard('read') }, async (_request, reply) => {
    reply.type(registry.contentType);
    return metrics();
  });
};
