import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import once from 'lodash/once.js';
import { answerError } from '../http/errors.ts';
import { RollcallError } from '../kernel/errors.ts';
import { type PageFile, readPageFiles } from './page-files.ts';
import { PAGES } from './page-lists.ts';

interface PagesOptions {
  /** An `onRequest` hook that throws for requests that may not even see the empty pages. */
  readonly admit: (request: FastifyRequest) => Promise<void>;
}

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

/** The pages for people. They are the same for everybody, since their data comes from the management API. */
export const pages: FastifyPluginAsync<PagesOptions> = async (app, { admit }) => {
  app.setErrorHandler(answerError);
  // Read on the first request, so that the service starts sooner.
  const pageFiles = once(readPageFiles);
  const route = { schema: { hide: true }, onRequest: admit };
  for (const address of ADDRESSES) {
    app.get(address, route, (request, reply) => send(pageFiles().index, 'no-cache', request, reply));
  }
  app.get<{ Params: { hash: string; '*': string } }>('/pages/:hash/*', route, (request, reply) => {
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
