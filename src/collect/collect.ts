import cors from '@fastify/cors';
import rateLimit from '@fastify/rate-limit';
import type {
  FastifyInstance,
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  RouteHandlerMethod,
  RouteShorthandOptions,
} from 'fastify';
import type { Clock } from '../clock.ts';
import type { Source } from '../destination.ts';
import { RollcallError } from '../errors.ts';
import { answerError, answerNotFound } from '../http-errors.ts';
import type { Envelope, Message, MessageType, TimeField } from '../message.ts';
import { readBatch, readCall } from './batch.ts';
import { readBody } from './body.ts';
import { type CollectLimits, DEFAULT_LIMITS } from './limits.ts';
import { createPressure } from './pressure.ts';
import { batchRoute, callRoute, hiddenRoute } from './schemas.ts';
import { basicWriteKey, createWriteKeys } from './write-keys.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The source that the write key of a collection request proved; null on other requests. */
    collectSource: Source | null;
  }
}

export interface CollectOptions {
  /** The same list as long as nothing changed. */
  readonly sources: () => readonly Source[];
  /** Resolves once the messages are durable. */
  readonly accept: (source: string, messages: readonly Message[]) => Promise<unknown>;
  readonly clock: Pick<Clock, 'now' | 'uuid'>;
  readonly limits?: Partial<CollectLimits>;
  /** Called with each time of a message that can't be read. */
  readonly onUnreadable?: (source: string, field: TimeField) => void;
}

/** Single calls by the paths of all clients; browsers use one letter. */
const CALLS = {
  identify: 'identify',
  i: 'identify',
  track: 'track',
  t: 'track',
  page: 'page',
  p: 'page',
  screen: 'screen',
  s: 'screen',
  group: 'group',
  g: 'group',
  alias: 'alias',
  a: 'alias',
} as const satisfies Record<string, MessageType>;

/** `import` is what older libraries send to, `b` mobile ones. */
const BATCHES = ['batch', 'import', 'b'] as const;

const DONE = '{"success":true}';

/** The Tracking API under `/v1`. Register it as it is: it keeps its parsers, hooks and error handler to itself. */
export const collect: FastifyPluginAsync<CollectOptions> = async (parent, options) => {
  await parent.register(async (app) => serve(app, options), { prefix: '/v1' });
};

async function serve(app: FastifyInstance, { sources, accept, clock, ...options }: CollectOptions): Promise<void> {
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  app.setErrorHandler(answerError);
  app.setNotFoundHandler(answerNotFound);
  readAnyContentType(app);
  await app.register(cors, { origin: '*', methods: ['POST'], maxAge: 86_400, exposedHeaders: ['retry-after'] });
  authenticate(app, sources);
  await limitRate(app);
  const onRequest = createPressure(limits.pendingBytes);

  const newId = () => clock.uuid();
  const envelopeOf = (request: FastifyRequest): Envelope => ({
    receivedAt: clock.now(),
    newId,
    onUnreadable: (field) => options.onUnreadable?.(sourceOf(request).id, field),
  });
  const call = (type: MessageType) => async (request: FastifyRequest, reply: FastifyReply) => {
    const message = readCall(request.body, { type, ...envelopeOf(request) });
    await accept(sourceOf(request).id, [message]);
    return reply.type('application/json').send(DONE);
  };
  const batch = async (request: FastifyRequest, reply: FastifyReply) => {
    const { messages, rejected } = readBatch(request.body, envelopeOf(request), limits);
    if (messages.length > 0) await accept(sourceOf(request).id, messages);
    return rejected.length === 0 ? reply.type('application/json').send(DONE) : { success: true, rejected };
  };
  for (const [path, type] of Object.entries(CALLS)) {
    const schema = path === type ? callRoute(type) : hiddenRoute;
    post(app, path, { bodyLimit: limits.callBytes, schema, onRequest }, call(type));
  }
  for (const path of BATCHES) {
    const schema = path === 'batch' ? batchRoute() : hiddenRoute;
    post(app, path, { bodyLimit: limits.batchBytes, schema, onRequest }, batch);
  }
}

/** With and without a final slash: a redirect would lose the message, as clients don't follow it. */
function post(app: FastifyInstance, path: string, options: RouteShorthandOptions, handler: RouteHandlerMethod): void {
  app.post(`/${path}`, options, handler);
  app.post(`/${path}/`, { ...options, schema: hiddenRoute }, handler);
}

/** Clients send JSON as text, as a form, as nothing at all. */
function readAnyContentType(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (request: FastifyRequest, body: Buffer) =>
    readBody(body, request.headers['content-encoding'], request.routeOptions.bodyLimit),
  );
  // The schemas are for the documentation; messages are checked one by one.
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => JSON.stringify);
}

/** By the header before the body is read, else by the write key in the body. */
function authenticate(app: FastifyInstance, sources: () => readonly Source[]): void {
  const findSource = createWriteKeys(sources);
  const enabledSource = (writeKey: string): Source => {
    const source = findSource(writeKey);
    if (source === undefined) throw new RollcallError('unknown_source', 'No source has this write key.');
    if (!source.enabled) throw new RollcallError('source_disabled', 'The source of this write key is disabled.');
    return source;
  };
  app.decorateRequest('collectSource', null);
  app.addHook('onRequest', async (request) => {
    const writeKey = basicWriteKey(request.headers.authorization);
    if (writeKey !== null) request.collectSource = enabledSource(writeKey);
  });
  app.addHook('preHandler', async (request) => {
    if (request.is404) return;
    if (request.body === undefined) throw new RollcallError('invalid_json', 'The request has no body.');
    if (request.collectSource !== null) return;
    const writeKey = (request.body as { writeKey?: unknown } | null | undefined)?.writeKey;
    request.collectSource = enabledSource(typeof writeKey === 'string' ? writeKey : '');
  });
}

/** Per source, where one has a limit; a rate below a whole number gets a longer window. */
async function limitRate(app: FastifyInstance): Promise<void> {
  const rateOf = (request: FastifyRequest) => sourceOf(request).ratePerSecond ?? Number.POSITIVE_INFINITY;
  await app.register(rateLimit, {
    hook: 'preHandler',
    keyGenerator: (request) => sourceOf(request).id,
    allowList: (request) => rateOf(request) === Number.POSITIVE_INFINITY,
    max: (request) => Math.ceil(rateOf(request)),
    timeWindow: (request: FastifyRequest) => (1000 * Math.ceil(rateOf(request))) / rateOf(request),
    errorResponseBuilder: () => new RollcallError('rate_limited', 'This source sends too many requests; try again.'),
  });
}

function sourceOf(request: FastifyRequest): Source {
  if (request.collectSource === null) throw new RollcallError('unknown_source', 'A write key is needed.');
  return request.collectSource;
}
