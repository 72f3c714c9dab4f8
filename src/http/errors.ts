import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { ERROR_CODES } from '../kernel/error-codes.ts';
import { type ErrorCode, RollcallError } from '../kernel/errors.ts';

// Importing that module makes Node 24 load its own `fetch` as well, for names that it re-exports: 40 ms of each start.
const { STATUS_CODES } = process.getBuiltinModule('node:http');

/** The body of every failed request; clients of the ecosystem read one or the other field. */
interface ErrorBody {
  readonly code: ErrorCode;
  readonly message: string;
  readonly error: string;
}

/** Answers for failures whose message names hosts and files, which only the log may show. */
const IN_THE_LOG: Partial<Record<ErrorCode, string>> = {
  store_full: 'The store is full; try again later.',
  store_failed: 'The store takes nothing now; try again later.',
  store_busy: 'The store takes nothing now; try again later.',
  store_damaged: 'The store takes nothing now; try again later.',
  store_missing: 'The store takes nothing now; try again later.',
  store_read_only: 'The store takes nothing now; try again later.',
};

/** Logged elsewhere, or no fault. */
const UNLOGGED: ReadonlySet<ErrorCode> = new Set(['engine_busy', 'overloaded', 'stopping']);

/** Bytes of a body that Node may read and drop after the answer, so that its connection can be used again. */
const DROPPED = 64 * 1024;

/** Seconds after which a client may retry, if nothing better is known. */
const RETRY_AFTER = 5;
const RETRY_LIMITED = 60;

export function statusOf(code: ErrorCode): number {
  return ERROR_CODES[code].status;
}

/** True if clients drop a message answered with this code, instead of sending it again. */
export function isFinal(code: ErrorCode): boolean {
  const status = statusOf(code);
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}

export function errorBody(code: ErrorCode, message: string): ErrorBody {
  return { code, message, error: message };
}

/**
 * Answers every error in JSON. Unexpected errors, and why the store failed, are logged and never disclosed.
 *
 * @param about - fields for that line of the log; null for no line
 */
export function answerError(
  error: FastifyError | RollcallError,
  request: FastifyRequest,
  reply: FastifyReply,
  about: object | null = {},
): void {
  const known = knownError(error);
  const status = statusOf(known.code);
  if (status >= 500 && about !== null && !UNLOGGED.has(known.code)) {
    request.log.error({ ...about, code: known.code, err: error }, status === 503 ? 'not taken' : 'request failed');
  }
  const wait = status === 503 ? RETRY_AFTER : status === 429 ? RETRY_LIMITED : null;
  if (wait !== null && !reply.hasHeader('retry-after')) reply.header('retry-after', wait);
  closeUnread(request, reply);
  if (known.code === 'unauthorized') reply.header('www-authenticate', 'Bearer realm="rollcall"');
  reply.code(status).send(errorBody(known.code, IN_THE_LOG[known.code] ?? known.message));
}

export function answerNotFound(request: FastifyRequest, reply: FastifyReply): void {
  const path = request.url.split('?', 1)[0];
  closeUnread(request, reply);
  reply.code(404).send(errorBody('not_found', `There is nothing at ${request.method} ${path}.`));
}

/** Closes the connection after the answer if much of the request's body may still come. */
function closeUnread({ raw }: FastifyRequest, reply: FastifyReply): void {
  const isLong = raw.headers['transfer-encoding'] !== undefined || Number(raw.headers['content-length']) > DROPPED;
  if (isLong && !raw.complete) reply.header('connection', 'close');
}

/** For Fastify's option `clientErrorHandler`: requests that never reached a route. */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const late = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
  const isTooLong = error.code === 'HPE_HEADER_OVERFLOW';
  const body = late
    ? errorBody('request_timeout', 'The request took too long to arrive.')
    : errorBody('invalid_request', isTooLong ? 'The headers are too large.' : 'This is not a valid HTTP request.');
  const status = isTooLong ? 431 : statusOf(body.code);
  const json = JSON.stringify(body);
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/json\r\n` +
      `content-length: ${Buffer.byteLength(json)}\r\nconnection: close\r\n\r\n${json}`,
  );
}

/** For the event `checkExpectation`: requests with an `Expect` that Node does not know. */
export function answerExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const json = JSON.stringify(errorBody('invalid_request', 'The only Expect that is understood is 100-continue.'));
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(json),
    connection: 'close',
  };
  response.writeHead(417, headers).end(json);
}

export function knownError(error: FastifyError | RollcallError): RollcallError {
  if (error instanceof RollcallError) return error;
  const status = error.statusCode ?? 500;
  if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE') return new RollcallError('too_large', 'The request is too large.');
  if (status === 415) return new RollcallError('unsupported_media_type', 'The body must be JSON.');
  if (status === 404) return new RollcallError('not_found', 'Nothing exists at this path.');
  if (status >= 400 && status < 500) return new RollcallError('invalid_request', error.message);
  return new RollcallError('internal_error', 'Rollcall has a fault; its log has the details.');
}
