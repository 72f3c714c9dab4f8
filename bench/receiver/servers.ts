/** Every contender as a Fastify app whose POST /hooks verifies, parses and calls a handler. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Webhooks } from '@octokit/webhooks';
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import rawBody from 'fastify-raw-body';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import Stripe from 'stripe';
import { Webhook as Svix } from 'svix';
import { receiver } from '../../receivers/index.ts';
import { base64Secret, secret } from './schemes.ts';

let handled = 0;
type Handle = (message: unknown) => void | Promise<void>;

export const handler: Handle = (message) => {
  if (typeof message === 'object' && message !== null) handled += 1;
};

/** As handlers that do something are. */
export const asyncHandler: Handle = async (message) => handler(message);

const received = { received: true };

/** Whether the body has this `X-Signature`, as one writes it by hand. */
function isSigned(bytes: Buffer, { headers }: FastifyRequest): boolean {
  const expected = createHmac('sha1', secret).update(bytes).digest();
  const given = Buffer.from(String(headers['x-signature']), 'hex');
  return given.length === expected.length && timingSafeEqual(given, expected);
}

/** A route that gets the body as text, as the peers' guides have it, and leaves the rest to `take`. */
function textRoute(take: (body: string, request: FastifyRequest) => unknown): FastifyInstance {
  const app = Fastify();
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_, body, done) => done(null, body));
  app.post('/hooks', async (request, reply) => {
    try {
      await take(request.body as string, request);
      return received;
    } catch {
      return reply.code(401).send({ received: false });
    }
  });
  return app;
}

export const servers: Record<string, (handle: Handle) => FastifyInstance> = {
  plain(handle) {
    const app = Fastify();
    app.post('/hooks', async (request) => {
      const pending = handle(request.body);
      if (pending !== undefined) await pending;
      return received;
    });
    return app;
  },
  /** The floor of batches: nothing is checked but the signature, and nothing remembered. */
  plainBatches(handle) {
    const app = Fastify();
    app.removeContentTypeParser('application/json');
    app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_, body, done) => done(null, body));
    app.post('/hooks', async (request, reply) => {
      const bytes = request.body as Buffer;
      if (!isSigned(bytes, request)) return reply.code(401).send();
      for (const message of JSON.parse(bytes.toString()).batch) {
        const pending = handle(message);
        if (pending !== undefined) await pending;
      }
      return received;
    });
    return app;
  },
  ours(track) {
    const app = Fastify();
    app.register(receiver, { path: '/hooks', secret, on: { track } });
    return app;
  },
  'fastify-raw-body'(handle) {
    const app = Fastify();
    app.register(rawBody, { encoding: false });
    app.after(() => {
      app.post('/hooks', async (request, reply) => {
        const { rawBody: bytes } = request as FastifyRequest & { rawBody: Buffer };
        if (!isSigned(bytes, request)) return reply.code(401).send();
        const pending = handle(request.body);
        if (pending !== undefined) await pending;
        return received;
      });
    });
    return app;
  },
  standardwebhooks(handle) {
    const webhook = new StandardWebhook(base64Secret);
    return textRoute((body, request) => handle(webhook.verify(body, request.headers)));
  },
  svix(handle) {
    const webhook = new Svix(base64Secret);
    return textRoute((body, request) => {
      webhook.verify(body, request.headers);
      return handle(JSON.parse(body));
    });
  },
  octokit(handle) {
    const webhooks = new Webhooks({ secret });
    webhooks.on('push', ({ payload }: { payload: unknown }) => handle(payload));
    return textRoute((payload, request) =>
      webhooks.verifyAndReceive({
        id: request.headers['x-github-delivery'],
        name: 'push',
        payload,
        signature: request.headers['x-hub-signature-256'],
      }),
    );
  },
  stripe(handle) {
    const stripe = new Stripe('sk_test_none');
    return textRoute((body, request) =>
      handle(stripe.webhooks.constructEvent(body, request.headers['stripe-signature'], secret)),
    );
  },
};

export const handledCount = () => handled;
