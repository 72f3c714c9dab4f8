import fc from 'fast-check';
import Fastify from 'fastify';
import t from 'tap';
import { createReceiver, type ReceivedRequest, receiver, sign, verify } from '../../receivers/index.ts';
import { parseMessage } from '../../receivers/parse/parse.ts';
import { silent } from './helpers/hosts.ts';
import { documents, requests } from './helpers/requests.ts';
import { secret } from './helpers/samples.ts';

t.test('survives any bytes and headers, and passes only verified ones to a handler', async (t) => {
  let handled = 0;
  /** As handlers do that keep what they get. */
  const look = (message: object, { rawBody }: ReceivedRequest) => {
    handled += 1;
    if ('admin' in { ...message } || rawBody.length === 0) throw new Error('a message changed what it was copied into');
  };
  const on = { any: look, unhandled: look };
  const app = Fastify();
  app.register(receiver, { path: '/hooks', secret, on });
  t.after(() => app.close());
  const { handle } = createReceiver({ secret, on, log: silent });
  await fc.assert(
    fc.asyncProperty(requests, async ({ body, signature, headers }) => {
      const given = signature === 'right' ? sign(body, secret) : signature;
      const all = {
        'content-type': 'application/json',
        ...headers,
        ...(given !== undefined && { 'x-signature': given }),
      };
      const trusted = verify(body, given, secret).ok;
      const before = handled;
      const injected = await app.inject({ method: 'POST', url: '/hooks', headers: all, payload: body });
      const answered = await handle(
        new Request('http://a.example/', { method: 'POST', headers: all, body: new Uint8Array(body) }),
      );
      for (const status of [injected.statusCode, answered.status]) {
        if (![200, 400, 401, 413, 415].includes(status)) throw new Error(`status ${status}`);
        if (!trusted && status === 200) throw new Error('an unverified request was accepted');
      }
      if (!trusted && handled !== before) throw new Error('an unverified request reached a handler');
    }),
    { numRuns: 1500 },
  );
  t.ok(handled > 0, 'some were handled');
});

t.test('never throws when parsing, and accepts again after a round trip what it accepted', async () => {
  fc.assert(
    fc.property(documents, (bytes) => {
      const parsed = parseMessage(bytes);
      if (!parsed.ok || !parsed.known || parsed.message.type === 'alias') return true;
      return parseMessage(Buffer.from(JSON.stringify(parsed.message))).ok;
    }),
    { numRuns: 3000 },
  );
});
