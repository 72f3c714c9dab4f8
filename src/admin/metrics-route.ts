import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import type { Registry } from 'prom-client';
import { answerError } from '../http/errors.ts';
import type { Gate } from './guard.ts';
import { sharedLook } from './shared-look.ts';

interface MetricsRouteOptions {
  readonly gate: Gate;
  /** True if everyone may read the metrics. */
  readonly isOpen: () => boolean;
  readonly registry: Registry;
}

export const metricsRoute: FastifyPluginAsync<MetricsRouteOptions> = async (app, { gate, isOpen, registry }) => {
  app.setErrorHandler(answerError);
  const metrics = sharedLook(() => registry.metrics());
  const guard = gate.guard('read');
  const onRequest = async (request: FastifyRequest) => (isOpen() ? undefined : guard(request));
  app.get('/metrics', { schema: { hide: true }, onRequest }, async (_request, reply) => {
    reply.type(registry.contentType);
    return metrics();
  });
};
