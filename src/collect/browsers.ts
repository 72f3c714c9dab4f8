import cors from '@fastify/cors';
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import type { Source } from '../destination.ts';
import { answerError, answerNotFound } from '../http/errors.ts';
import { RollcallError } from '../kernel/errors.ts';
import type { CollectOptions } from './options.ts';
import { pixels } from './pixels.ts';
import { settingsRoute, sourceConfigRoute } from './schemas.ts';
import { basicWriteKey, createEnabledSource, createWriteKeys, ownerOf, queryWriteKey } from './write-keys.ts';

/**
 * Lets pages of every origin send and read the answer, with credentials too: `sendBeacon` and some libraries always send
 * them. Nothing here reads a cookie, so a page can do no more than any program with the same key.
 */
async function allowPages(app: FastifyInstance, methods: string[]): Promise<void> {
  await app.register(cors, {
    ...{ origin: true, credentials: true, methods },
    ...{ maxAge: 86_400, exposedHeaders: ['retry-after'] },
    // Other OPTIONS requests would be refused, and in plain text.
    strictPreflight: false,
  });
}

/**
 * Like `allowPages`, for routes with thousands of posts a second, few of them from pages: it costs the others nothing. Runs
 * before the check of the write key: a library that can't read why it is refused assumes a network failure and retries.
 */
export function letPagesRead(app: FastifyInstance): void {
  app.addHook('onRequest', ({ raw }, reply, done) => {
    const { origin } = raw.headers;
    if (origin !== undefined) reply.headers({ ...READABLE, 'access-control-allow-origin': origin });
    done();
  });
}

export async function answerPreflights(app: FastifyInstance): Promise<void> {
  await app.register(async (scope) => allowPages(scope, ['POST']));
}

const READABLE = {
  vary: 'Origin',
  'access-control-allow-credentials': 'true',
  'access-control-expose-headers': 'retry-after',
};

type KeyedRequest = FastifyRequest<{ Params: { key: string } }>;

/** Routes for browsers: settings that their libraries load first, so that a page sets only one address, and pixels. */
export const browsers: FastifyPluginAsync<CollectOptions> = async (parent, options) => {
  const findSource = createWriteKeys(options.sources);
  const enabledSource = createEnabledSource(options.sources);
  const scope = (prefix: string, routes: (app: FastifyInstance) => void) =>
    parent.register(
      async (app) => {
        app.setErrorHandler(answerError);
        app.setNotFoundHandler(answerNotFound);
        await allowPages(app, ['GET']);
        // The schemas are for the documentation.
        app.setValidatorCompiler(() => () => true);
        app.setSerializerCompiler(() => JSON.stringify);
        routes(app);
      },
      { prefix },
    );
  const settings = async (request: FastifyRequest, reply: FastifyReply) => {
    const source = enabledSource((request as KeyedRequest).params.key);
    parent.edge.believe(request, ownerOf(source));
    return cached(reply).send(librarySettings(source, request));
  };
  const sourceConfig = async (request: FastifyRequest, reply: FastifyReply) => {
    const key = basicWriteKey(request.headers.authorization) ?? queryWriteKey(request.query) ?? '';
    const source = findSource(key);
    if (source === undefined) throw new RollcallError('unknown_source', 'No source has this write key.');
    parent.edge.believe(request, ownerOf(source));
    return cached(reply).send(rudderConfig(source));
  };
  await scope('/v1/projects', (app) => {
    app.get('/:key/settings', settingsRoute(), settings);
  });
  await scope('/sourceConfig', (app) => {
    app.get('/', sourceConfigRoute(), sourceConfig);
  });
  await parent.register(pixels, options);
};

/** Caches briefly, from one page to the next: a revoked key must not live on for long. */
function cached(reply: FastifyReply): FastifyReply {
  return reply.header('cache-control', 'private, max-age=60').type('application/json');
}

/** Settings for analytics-next: the address to send to, and nothing else to load or to report. */
function librarySettings({ writeKey }: Source, request: FastifyRequest): object {
  const target = {
    ...{ apiKey: writeKey, apiHost: `${request.host}/v1`, protocol: protocolOf(request) },
    // Calls sent while the user leaves the page must outlive it.
    deliveryStrategy: { config: { keepalive: true } },
  };
  const all = { __default: { enabled: true, integrations: {} } };
  return {
    integrations: { 'Segment.io': target },
    plan: { track: all, identify: all, group: all },
    middlewareSettings: {},
    remotePlugins: [],
    metrics: { sampleRate: 0 },
  };
}

/** Behind a proxy that terminates TLS, the page must keep using https. A forged header affects only its sender's answer. */
function protocolOf({ protocol, headers }: FastifyRequest): string {
  const [forwarded] = String(headers['x-forwarded-proto'] ?? '').split(',', 1);
  return forwarded?.trim().toLowerCase() === 'https' ? 'https' : protocol;
}

/** Settings for Rudder's library: it sends if the source is enabled, and reports neither errors nor metrics. */
function rudderConfig({ id, writeKey, enabled }: Source): object {
  const silent = { errors: { enabled: false }, metrics: { enabled: false } };
  return { source: { id, name: id, writeKey, enabled, config: { statsCollection: silent }, destinations: [] } };
}
