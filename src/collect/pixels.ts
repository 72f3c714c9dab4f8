import type { FastifyError, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { knownError, statusOf } from '../http/errors.ts';
import { HIDDEN } from '../http/schemas.ts';
import { CLIENT_TYPES } from '../message-types.ts';
import { readCall } from './batch.ts';
import { reportItem, reportRequest } from './discarded.ts';
import { JsonBody } from './json-body.ts';
import type { CollectOptions } from './options.ts';
import { limitRate, sourceOf } from './rate-limit.ts';
import { RefusalLog } from './refusal-log.ts';
import { pixelRoute } from './schemas.ts';
import { createEnabledSource, ownerOf, queryWriteKey } from './write-keys.ts';

/** One transparent pixel. */
const GIF = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64');

/**
 * Accepts one message in the URL of an image, for e-mails and pages without scripts. Every answer is an image, as nobody
 * can read anything else. The status shows the result.
 */
export const pixels: FastifyPluginAsync<CollectOptions> = async (
  parent,
  { sources, accept, clock, onDiscard = () => {}, ...options },
) => {
  const enabledSource = createEnabledSource(sources);
  const refusals = new RefusalLog(clock);
  await parent.register(
    async (app) => {
      app.decorateRequest('collectSource', null);
      app.decorateRequest('pixel', null);
      app.setErrorHandler((error: FastifyError, request, reply) => {
        const { code } = knownError(error);
        const status = statusOf(code);
        const refused = status === 503 ? refusals.count(code) : 1;
        if (status >= 500 && refused > 0) request.log.error({ err: error, refused }, code);
        reportRequest(error, request, onDiscard);
        return image(reply.code(status));
      });
      app.addHook('preValidation', async (request) => {
        const { data } = request.query as { readonly data?: unknown };
        const call = dataOf(data);
        request.pixel = call;
        request.collectSource = enabledSource(call.writeKey ?? queryWriteKey(request.query) ?? '');
        app.edge.believe(request, ownerOf(request.collectSource));
      });
      await limitRate(app);
      app.setValidatorCompiler(() => () => true);
      for (const type of CLIENT_TYPES) {
        const handler = async (request: FastifyRequest, reply: FastifyReply) => {
          const { id, ip: mode = 'keep' } = sourceOf(request);
          const message = readCall(request.pixel ?? dataOf(null), {
            type,
            receivedAt: clock.now(),
            newId: () => clock.uuid(),
            ip: { mode, from: request.ip },
            onUnreadable: (field) => options.onUnreadable?.(id, field),
            onPlaceholder: (input) => reportItem(request, 'placeholder_id', input, onDiscard),
          });
          await accept(id, [message]);
          return image(reply);
        };
        // A HEAD request, for instance of an e-mail scanner, does not mean that the image was seen.
        app.get(`/${type}`, { ...pixelRoute(type), exposeHeadRoute: false }, handler);
        app.get(`/${type}.gif`, { ...HIDDEN, exposeHeadRoute: false }, handler);
      }
    },
    { prefix: '/v1/pixel' },
  );
};

function image(reply: FastifyReply): FastifyReply {
  return reply.header('cache-control', 'no-store').type('image/gif').send(GIF);
}

/** The call in `data`, JSON in Base64 of either alphabet; a plus sign may have become a space on its way. */
function dataOf(data: unknown): JsonBody {
  return new JsonBody(Buffer.from(typeof data === 'string' ? data.replaceAll(' ', '+') : '', 'base64'));
}
