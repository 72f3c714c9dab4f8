import type { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { RollcallError } from '../kernel/errors.ts';

/** Cost of a chunk on top of its bytes. Without it, a body in chunks of one byte would hold hundreds of times its charge. */
const CHUNK_COST = 256;

/** The bytes are valid only if there is no error. */
type OnBytes = (error: Error | null, bytes: Buffer) => void;

/**
 * Reads a body up to the limit of its route, and charges its bytes as they arrive. A promise for each would cost as much as
 * the work itself.
 *
 * @param done - called once, with the bytes or with RollcallError `too_large`, `overloaded`, `request_timeout`
 */
export function readBody(request: FastifyRequest, payload: Readable, done: OnBytes): void {
  const { edge } = request.server;
  // Fastify makes the options again at each access.
  const { bodyLimit } = request.routeOptions;
  let chunks: Buffer[] = [];
  let length = 0;
  let isDone = false;
  const settle = (error: Error | null, bytes: Buffer = NO_BYTES) => {
    if (isDone) return;
    isDone = true;
    // The request outlives its body.
    chunks = [];
    done(error, bytes);
  };
  const announced = Number(request.raw.headers['content-length'] ?? 0);
  try {
    if (announced > bodyLimit) throw tooLarge(bodyLimit);
    edge.expect(request, announced);
  } catch (error) {
    settle(error as Error);
    return;
  }
  payload
    .on('data', (chunk: Buffer) => {
      if (isDone) return;
      length += chunk.length;
      chunks.push(chunk);
      if (length > bodyLimit) return settle(tooLarge(bodyLimit));
      try {
        edge.hold(request, length + chunks.length * CHUNK_COST);
      } catch (error) {
        settle(error as Error);
      }
    })
    .on('end', () => {
      if (!isDone) settle(null, chunks.length === 1 ? chunks[0] : Buffer.concat(chunks, length));
    })
    // Caused by the client or its network, so not logged.
    .on('error', () => settle(new RollcallError('request_timeout', CLOSED_EARLY)));
}

const CLOSED_EARLY = 'The client closed the connection before the body was complete.';
const NO_BYTES = Buffer.alloc(0);

export function tooLarge(maxBytes: number): RollcallError {
  return new RollcallError('too_large', `The body must not be larger than ${maxBytes} bytes.`);
}
