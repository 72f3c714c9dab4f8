import type { FastifyReply, FastifyRequest } from 'fastify';
import { RollcallError } from '../errors.ts';

/**
 * Bounds the memory of requests that are being read or accepted: a hook that answers 503 once all of them together may
 * hold more than `maxBytes`. A compressed body, or one of unknown length, counts as large as it may become.
 */
export function createPressure(maxBytes: number): (request: FastifyRequest, reply: FastifyReply) => Promise<void> {
  let pending = 0;
  return async (request, reply) => {
    const limit = request.routeOptions.bodyLimit;
    const { 'content-length': length, 'content-encoding': encoding } = request.headers;
    const bytes = encoding === undefined && length !== undefined ? Math.min(Number(length) || 0, limit) : limit;
    if (pending + bytes > maxBytes) {
      throw new RollcallError('overloaded', 'Too many requests are waiting; try again.');
    }
    pending += bytes;
    reply.raw.once('close', () => {
      pending -= bytes;
    });
  };
}
