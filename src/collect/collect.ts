import type { FastifyError, FastifyInstance, FastifyPluginAsync, FastifyRequest, RouteHandlerMethod } from 'fastify';
import { answerError, answerNotFound, knownError, statusOf } from '../http/errors.ts';
import { type Documented, HIDDEN } from '../http/schemas.ts';
import type { Clock } from '../kernel/clock.ts';
import { RollcallError } from '../kernel/errors.ts';
import type { IpRule } from '../kernel/ip.ts';
import type { MessageEnvelope } from '../message.ts';
import { CLIENT_TYPES, type ClientType } from '../message-types.ts';
import { admit, bodyOf, letBodyGo } from './admission.ts';
import { readBatch, readCall } from './batch.ts';
import { answerPreflights, browsers, letPagesRead } from './browsers.ts';
import { reportItem, reportRequest } from './discarded.ts';
import { FairLimit } from './fair-limit.ts';
import { DEFAULT_LIMITS } from './limits.ts';
import type { CollectOptions } from './options.ts';
import { limitRate, sourceOf } from './rate-limit.ts';
import { RefusalLog } from './refusal-log.ts';
import { batchRoute, callRoute } from './schemas.ts';

/** Single calls by the paths of all clients; browsers use one letter. */
const CALLS: ReadonlyMap<string, ClientType> = new Map(
  CLIENT_TYPES.flatMap((type) => [[type, type] as const, [type.charAt(0), type] as const]),
);

/** Older libraries send to `import`, mobile ones to `b`. */
const BATCHES = ['batch', 'import', 'b'] as const;

/** Messages being stored at a time, so that there are always two groups of them: those in work and the next. */
const ACCEPTED_AT_ONCE = 16_000;
const DONE = '{"success":true}';

/** Rudder's library sends beacons to the same routes below another path. */
const PREFIXES = ['/v1', '/beacon/v1'] as const;

/** The Tracking API. Register it as it is: it keeps its parsers, hooks and error handlers to itself. */
export const collect: FastifyPluginAsync<CollectOptions> = async (parent, options) => {
  const accepting = new FairLimit(ACCEPTED_AT_ONCE);
  const accept: CollectOptions['accept'] = (source, messages) =>
    accepting.pass(source, messages.length, () => options.accept(source, messages));
  await parent.register(async (app) => serve(app, { ...options, accept }));
  await parent.register(browsers, { ...options, accept });
};

async function serve(
  app: FastifyInstance,
  { sources, accept, clock, onDiscard = () => {}, ...options }: CollectOptions,
): Promise<void> {
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const answerFailure = createFailureAnswer(clock);
  app.setErrorHandler((error: FastifyError, request, reply) => {
    reportRequest(error, request, onDiscard);
    return answerFailure(error, request, reply);
  });
  letPagesRead(app);
  admit(app, sources);
  await limitRate(app);

  const newId = () => clock.uuid();
  const envelopeOf = (request: FastifyRequest, isOfBrowsers: boolean): MessageEnvelope => ({
    receivedAt: clock.now(),
    newId,
    ...ipRule(request, isOfBrowsers),
    onUnreadable: (field) => options.onUnreadable?.(sourceOf(request).id, field),
    onPlaceholder: (input) => reportItem(request, 'placeholder_id', input, onDiscard),
  });
  // A body is released as soon as its messages are being written: no waiting function holds it.
  const takeCall = (request: FastifyRequest, type: ClientType, isOfBrowsers: boolean) => {
    const message = readCall(bodyOf(request), { type, ...envelopeOf(request, isOfBrowsers) });
    letBodyGo(request);
    return accept(sourceOf(request).id, [message]);
  };
  const call =
    (type: ClientType, isOfBrowsers: boolean): RouteHandlerMethod =>
    async (request, reply) => {
      await takeCall(request, type, isOfBrowsers);
      return reply.type('application/json').send(DONE);
    };
  const takeBatch = (request: FastifyRequest, isOfBrowsers: boolean) => {
    const { messages, rejected } = readBatch(bodyOf(request), envelopeOf(request, isOfBrowsers), limits);
    if (rejected.length === 0) letBodyGo(request);
    const accepted = messages.length > 0 ? accept(sourceOf(request).id, messages) : null;
    return { rejected, accepted };
  };
  const batch =
    (isOfBrowsers: boolean): RouteHandlerMethod =>
    async (request, reply) => {
      const { rejected, accepted } = takeBatch(request, isOfBrowsers);
      await accepted;
      for (const { index, code } of rejected) reportItem(request, code, bodyOf(request).items?.[index], onDiscard);
      return rejected.length === 0 ? reply.type('application/json').send(DONE) : { success: true, rejected };
    };
  const routes = async (under: FastifyInstance, { prefix }: { readonly prefix: string }) => {
    under.setNotFoundHandler(answerUnrouted(prefix));
    await answerPreflights(under);
    const isBeacon = prefix !== '/v1';
    for (const [path, type] of CALLS) {
      const docs = path === type && !isBeacon ? callRoute(type) : HIDDEN;
      post(under, path, limits.callBytes, docs, call(type, isBeacon || path.length === 1));
    }
    for (const path of BATCHES) {
      const docs = path === 'batch' && !isBeacon ? batchRoute() : HIDDEN;
      post(under, path, limits.batchBytes, docs, batch(isBeacon));
    }
  };
  for (const prefix of PREFIXES) await app.register(routes, { prefix });
}

/**
 * A browser's address is the user's, a server's is not. Browsers send the page's origin with every post, and their
 * libraries send single calls to paths of one letter.
 */
function ipRule(request: FastifyRequest, isOfBrowsers: boolean): { readonly ip?: IpRule } {
  const { ip: mode = 'keep' } = sourceOf(request);
  const isBrowser = isOfBrowsers || request.headers.origin !== undefined;
  if (!isBrowser && mode === 'keep') return {};
  return { ip: { mode, from: isBrowser ? request.ip : null } };
}

/** Paths that accept only POST, below each prefix. */
const POSTED = new Set([...CALLS.keys(), ...BATCHES].flatMap((path) => [`/${path}`, `/${path}/`]));

/** Answers requests without a route: another method, before a body is read, or another path. */
function answerUnrouted(prefix: string): typeof answerNotFound {
  return (request, reply) => {
    const [path = ''] = request.url.split('?', 1);
    if (!POSTED.has(path.slice(prefix.length))) return answerNotFound(request, reply);
    reply.header('allow', 'POST, OPTIONS');
    const refused = new RollcallError('method_not_allowed', `Messages are sent with POST, not ${request.method}.`);
    answerError(refused, request, reply);
  };
}

/** Like `answerError`, with the source in the log. */
function createFailureAnswer(clock: Pick<Clock, 'monotonic'>): typeof answerError {
  const refusals = new RefusalLog(clock);
  return (error, request, reply) => {
    const { code, message } = knownError(error);
    const source = request.collectSource?.id;
    if (statusOf(code) !== 503) return answerError(error, request, reply, { source });
    const refused = refusals.count(code);
    if (code === 'overloaded' && refused > 0) request.log.warn({ stage: 'collect', code, refused }, message);
    answerError(error, request, reply, refused > 0 ? { source, refused } : null);
  };
}

/** With and without a final slash: a redirect would lose the message, as clients don't follow it. */
function post(
  app: FastifyInstance,
  path: string,
  bodyLimit: number,
  docs: Documented,
  handler: RouteHandlerMethod,
): void {
  app.post(`/${path}`, { ...docs, bodyLimit }, handler);
  app.post(`/${path}/`, { ...HIDDEN, bodyLimit }, handler);
}
