import type { Server } from 'node:http';
import type { FastifyHttpOptions } from 'fastify';
import { answerClientError, answerError } from '../http/errors.ts';

export const serverOptions = {
  /** Milliseconds for a request to arrive; a slower one is answered 408. Node checks every `connectionsCheckingInterval`. */
  requestTimeout: 30_000,
  // Node ignores a request timeout that is shorter than the one for headers.
  http: { headersTimeout: 10_000, connectionsCheckingInterval: 2_000, maxHeaderSize: 16 * 1024 },
  /** Longer than load balancers keep idle connections, so that they don't send into one that is closing. */
  keepAliveTimeout: 72_000,
  clientErrorHandler: answerClientError,
  /** Answers URLs that can't be decoded, such as `/%zz`. */
  frameworkErrors: answerError,
} satisfies FastifyHttpOptions<Server>;
