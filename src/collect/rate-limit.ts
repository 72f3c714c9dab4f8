import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Source } from '../destination.ts';
import { RollcallError } from '../kernel/errors.ts';
import type { JsonBody } from './json-body.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The source authenticated by the write key of a collection request; null on other requests. */
    collectSource: Source | null;
    /** The body in the URL of a pixel; null on other requests. */
    pixel: JsonBody | null;
  }
}

/** Limits requests of each source that has a rate. A fractional rate gets a longer window. */
export async function limitRate(app: FastifyInstance): Promise<void> {
  const rateOf = (request: FastifyRequest) => sourceOf(request).ratePerSecond ?? Number.POSITIVE_INFINITY;
  await app.register(rateLimit, { global: false });
  const limit = app.rateLimit({
    keyGenerator: (request) => sourceOf(request).id,
    max: (request) => Math.ceil(rateOf(request)),
    timeWindow: (request: FastifyRequest) => (1000 * Math.ceil(rateOf(request))) / rateOf(request),
    errorResponseBuilder: () => new RollcallError('rate_limited', 'This source sends too many requests; try again.'),
  });
  app.addHook('preHandler', (request, reply, done) => {
    if (request.is404 || (request.collectSource?.ratePerSecond ?? null) === null) return done();
    limit.call(app, request, reply).then(() => done(), done);
  });
}

export function sourceOf(request: FastifyRequest): Source {
  if (request.collectSource === null) throw new RollcallError('unknown_source', 'A write key is needed.');
  return request.collectSource;
}
