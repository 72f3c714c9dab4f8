import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import once from 'lodash/once.js';
import { answerError } from '../http/errors.ts';
import { HIDDEN } from '../http/schemas.ts';
import { RollcallError } from '../kernel/errors.ts';
import { type PageFile, readPageFiles } from './page-files.ts';
import { PAGES } from './page-lists.ts';

/** Addresses that answer with the same document, whose program then draws the page of the address. */
const ADDRESSES = PAGES.filter(({ path }) => !path.includes(':')).flatMap(({ path, title }) =>
  title === undefined || path === '/' ? [path] : [path, `${path}/*`],
);

/** Forbids inline code and other hosts, and keeps foreign text from becoming markup. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const HEADERS = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
};

/** The pages for people. Everyone may load them: they are empty until the management API gives them data. */
export const pages: FastifyPluginAsync = async (app) => {
  app.setErrorHandler(answerError);
  // Read on the first request, so that the service starts sooner.
  const pageFiles = once(readPageFiles);
  for (const address of ADDRESSES) {
    app.get(address, HIDDEN, (request, reply) => send(pageFiles().index, 'no-cache', request, reply));
  }
  app.get<{ Params: { hash: string; '*': string } }>('/pages/:hash/*', HIDDEN, (request, reply) => {
    const { hash, '*': path } = request.params;
    const file = hash === pageFiles().hash ? pageFiles().files.get(path) : undefined;
    if (!file) throw new RollcallError('not_found', 'This page is of another version. Reload it.');
    // A file at such a path never changes: the path has the hash of all files.
    return send(file, 'public, max-age=31536000, immutable', request, reply);
  });
};

function send(file: PageFile, caching: string, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  return sendFile(file, request, reply.headers(HEADERS).header('cache-control', caching));
}

export function sendFile(
  { type, gzip, plain }: PageFile,
  { headers }: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const zipped = /\bgzip\b/.test(headers['accept-encoding'] ?? '');
  if (zipped) reply.header('content-encoding', 'gzip');
  return reply
    .header('vary', 'accept-encoding')
    .type(type)
    .send(zipped ? gzip : plain);
}
