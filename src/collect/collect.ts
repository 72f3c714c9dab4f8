import type { Readable } from 'node:stream';
import type {
  FastifyInstance,
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  FastifySchema,
  RouteHandlerMethod,
  RouteShorthandOptions,
} from 'fastify';
import type { Clock } from '../clock.ts';
import type { Source } from '../destination.ts';
import { RollcallError } from '../errors.ts';
import { answerError, answerNotFound } from '../http-errors.ts';
import type { IpRule } from '../ip.ts';
import type { Envelope, Message, MessageType, TimeField } from '../message.ts';
import { readBatch, readCall } from './batch.ts';
import { inflated, readBytes, tooLarge } from './body.ts';
import { allowPages, browsers } from './browsers.ts';
import { Gate } from './gate.ts';
import { JsonBody } from './json-body.ts';
import { type CollectLimits, DEFAULT_LIMITS } from './limits.ts';
import { Hold, Pressure } from './pressure.ts';
import { limitRate, sourceOf } from './rate-limit.ts';
import { batchRoute, callRoute, hiddenRoute } from './schemas.ts';
import { Strangers } from './strangers.ts';
import { basicWriteKey, createEnabledSource, queryWriteKey } from './write-keys.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** What a collection request holds; null on other requests. */
    collectHold: Hold | null;
  }
}

export interface CollectOptions {
  /** The same list as long as nothing changed. */
  readonly sources: () => readonly Source[];
  /** Resolves once the messages are durable. */
  readonly accept: (source: string, messages: readonly Message[]) => Promise<unknown>;
  readonly clock: Pick<Clock, 'now' | 'uuid' | 'monotonic' | 'after'>;
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

/** The threads that inflate are few, and shared with all that reads files. */
const INFLATED_AT_ONCE = 2;

const DONE = '{"success":true}';

/** Rudder's library sends beacons to the same routes below another path. */
const PREFIXES = ['/v1', '/beacon/v1'] as const;

/** The Tracking API. Register it as it is: it keeps its parsers, hooks and error handlers to itself. */
export const collect: FastifyPluginAsync<CollectOptions> = async (parent, options) => {
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const strangers = new Strangers(limits, options.clock);
  parent.server.on('connection', (socket) => strangers.connected(socket));
  await parent.register(async (app) => serve(app, options, limits, strangers));
  await parent.register(browsers, { ...options, onKnown: (socket) => strangers.known(socket) });
};

async function serve(
  app: FastifyInstance,
  { sources, accept, clock, ...options }: CollectOptions,
  limits: CollectLimits,
  strangers: Strangers,
): Promise<void> {
  app.setErrorHandler(answerError);
  readBodies(app, { sources, limits, strangers });
  await limitRate(app);

  const newId = () => clock.uuid();
  const envelopeOf = (request: FastifyRequest): Envelope => ({
    receivedAt: clock.now(),
    newId,
    ...ipRule(request),
    onUnreadable: (field) => options.onUnreadable?.(sourceOf(request).id, field),
  });
  const call = (type: MessageType) => async (request: FastifyRequest, reply: FastifyReply) => {
    const message = readCall(bodyOf(request), { type, ...envelopeOf(request) });
    await accept(sourceOf(request).id, [message]);
    return reply.type('application/json').send(DONE);
  };
  const batch = async (request: FastifyRequest, reply: FastifyReply) => {
    const { messages, rejected } = readBatch(bodyOf(request), envelopeOf(request), limits);
    if (messages.length > 0) await accept(sourceOf(request).id, messages);
    return rejected.length === 0 ? reply.type('application/json').send(DONE) : { success: true, rejected };
  };
  const routes = async (under: FastifyInstance, { prefix }: { readonly prefix: string }) => {
    under.setNotFoundHandler(answerNotFound);
    await allowPages(under, ['POST']);
    const documented = (schema: FastifySchema) => (prefix === '/v1' ? schema : hiddenRoute);
    for (const [path, type] of Object.entries(CALLS)) {
      const schema = path === type ? documented(callRoute(type)) : hiddenRoute;
      post(under, path, { bodyLimit: limits.callBytes, schema }, call(type));
    }
    for (const path of BATCHES) {
      const schema = path === 'batch' ? documented(batchRoute()) : hiddenRoute;
      post(under, path, { bodyLimit: limits.batchBytes, schema }, batch);
    }
  };
  for (const prefix of PREFIXES) await app.register(routes, { prefix });
}

const SENT_BY_BROWSERS = /^\/beacon\/|\/[agipst]\/?$/;

/**
 * Of a browser the address is the user's, of a server it is not. Browsers name the page's origin with what they post, and
 * their libraries send single calls to paths of one letter.
 */
function ipRule(request: FastifyRequest): { readonly ip?: IpRule } {
  const { ip: mode = 'keep' } = sourceOf(request);
  const isBrowser = request.headers.origin !== undefined || SENT_BY_BROWSERS.test(request.routeOptions.url ?? '');
  if (!isBrowser && mode === 'keep') return {};
  return { ip: { mode, from: isBrowser ? request.ip : null } };
}

/** With and without a final slash: a redirect would lose the message, as clients don't follow it. */
function post(app: FastifyInstance, path: string, options: RouteShorthandOptions, handler: RouteHandlerMethod): void {
  app.post(`/${path}`, options, handler);
  app.post(`/${path}/`, { ...options, schema: hiddenRoute }, handler);
}

type Guarded = Pick<CollectOptions, 'sources'> & { readonly limits: CollectLimits; readonly strangers: Strangers };

/**
 * Who sends a request is looked for as early as it can be known: in its head, else in its body, of which no more than the outline
 * is read before. Until then the request has only the room that strangers have.
 */
function readBodies(app: FastifyInstance, { sources, limits, strangers }: Guarded): void {
  const enabledSource = createEnabledSource(sources);
  const pressure = new Pressure(limits.pendingBytes);
  const [gate, strangersGate] = [new Gate(INFLATED_AT_ONCE), new Gate(INFLATED_AT_ONCE)];
  app.decorateRequest('collectSource', null);
  app.decorateRequest('collectHold', null);
  const recognise = (request: FastifyRequest, writeKey: string) => {
    request.collectSource = enabledSource(writeKey);
    strangers.known(request.raw.socket);
    return pressure.account(request.collectSource.id);
  };
  app.addHook('onRequest', async (request, reply) => {
    if (request.is404) return;
    // Clients send JSON as text, as a form, under types that are none.
    delete request.raw.headers['content-type'];
    const writeKey = basicWriteKey(request.headers.authorization) ?? queryWriteKey(request.query);
    const account = writeKey === null ? strangers : recognise(request, writeKey);
    const { bodyLimit } = request.routeOptions;
    const announced = Number(request.headers['content-length'] ?? 0);
    if (announced > bodyLimit) {
      // What is still on its way would have to be read.
      reply.header('connection', 'close');
      throw tooLarge(bodyLimit);
    }
    account.expect(announced);
    const hold = new Hold(account);
    request.collectHold = hold;
    reply.raw.once('close', () => hold.end());
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: Readable) => {
    const { collectHold: hold, headers, routeOptions, collectSource } = request;
    if (hold === null) return undefined;
    const maxBytes = routeOptions.bodyLimit;
    const sent = await readBytes(payload, hold, maxBytes);
    const encoding = headers['content-encoding'] ?? '';
    const bytes = await inflated(sent, encoding, maxBytes, collectSource ? gate : strangersGate);
    hold.resize(bytes.length);
    const body = new JsonBody(bytes);
    if (collectSource === null) hold.moveTo(recognise(request, body.writeKey ?? ''));
    return body;
  });
  app.addHook('preHandler', async (request) => {
    if (!request.is404 && request.body === undefined)
      throw new RollcallError('invalid_json', 'The request has no body.');
  });
  // The schemas are for the documentation; messages are checked one by one.
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => JSON.stringify);
}

function bodyOf(request: FastifyRequest): JsonBody {
  if (request.body instanceof JsonBody) return request.body;
  throw new RollcallError('invalid_json', 'The body must be JSON.');
}
