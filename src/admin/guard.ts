import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';
import { RollcallError } from '../errors.ts';

/** An `onRequest` hook; it throws for requests that may not pass. */
export type Guard = (request: FastifyRequest) => Promise<void>;

/** Set by proxies: then the peer's address says nothing about who asks. */
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'via'];

/**
 * Guards admin routes. With a token, requests must bear it. Without one, only programs and pages of this machine are
 * served: no proxy in between, no other site's page in a local browser.
 *
 * The hook throws RollcallError `unauthorized`, `forbidden`, `unsupported_media_type`.
 */
export function createGuard(token: () => string | null): Guard {
  return async (request) => {
    const expected = token();
    if (expected === null) checkLocal(request);
    else if (!bears(request.headers.authorization, expected)) {
      throw new RollcallError('unauthorized', 'Send the admin token: `Authorization: Bearer …`.');
    }
  };
}

function bears(authorization: string | undefined, expected: string): boolean {
  const given = /^bearer +(\S+) *$/i.exec(authorization ?? '')?.[1] ?? '';
  return timingSafeEqual(digest(given), digest(expected));
}

/** Equally long whatever the token's length. */
function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

function checkLocal({ socket, headers }: FastifyRequest): void {
  const { host, origin } = headers;
  if (!isLoopback(socket.remoteAddress ?? '')) refuse('Without an admin token only this machine is served.');
  if (FORWARDED.some((name) => headers[name] !== undefined)) refuse('Without an admin token no proxy is served.');
  if (!isLoopback(URL.parse(`http://${host}`)?.hostname ?? '')) refuse('Host must be localhost or a loopback address.');
  if (origin !== undefined && URL.parse(origin)?.host !== host) refuse('Pages of other sites are not served.');
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
  // Any page may post a form or text to this machine; for JSON a browser asks first.
  if (hasBody && !/^application\/json *(;|$)/i.test(headers['content-type'] ?? '')) {
    throw new RollcallError('unsupported_media_type', 'The body must be application/json.');
  }
}

function refuse(reason: string): never {
  throw new RollcallError('forbidden', reason);
}

function isLoopback(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, '');
  return name === 'localhost' || (ipaddr.isValid(name) && ipaddr.process(name).range() === 'loopback');
}
