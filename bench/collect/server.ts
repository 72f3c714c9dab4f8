/** One contender in a process of its own: `server.ts NAME FILE`. Tells its port. */
import type { AddressInfo } from 'node:net';
import Fastify from 'fastify';
import { pino } from 'pino';
import { createAccept } from '../../src/accept.ts';
import { collect } from '../../src/collect/collect.ts';
import type { Destination, Source } from '../../src/destination.ts';
import { createHttpServer } from '../../src/http/server.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { openStore } from '../../src/store/open.ts';
import type { NewMessage } from '../../src/store/port.ts';

const sources: readonly Source[] = [{ id: 'shop', writeKey: 'WK', enabled: true }];
const destinations: readonly Destination[] = [
  {
    ...{ name: 'crm', enabled: true, sources: ['shop'], secrets: [], require: 'any', ratePerSecond: null },
    endpoints: [{ id: 'e', url: 'http://127.0.0.1:9/', headers: {} }],
  },
];

interface Sent {
  readonly messageId: string;
  readonly userId: string;
}

/** What the store alone costs: its row, made without a look at the message. */
function rowOf(sent: Sent): NewMessage {
  const { messageId, userId } = sent;
  const own = { messageId, userId, body: JSON.stringify(sent) };
  return { ...own, source: 'shop', type: 'track', destinations: everywhere, lane: 'live', conflict: null };
}
const everywhere = ['crm'];

const [name = '', file = ''] = process.argv.slice(2);
const health = { alive: () => {}, ready: async () => {} };
const isBare = name === 'bare' || name === 'stored';
const app = isBare ? Fastify() : createHttpServer(pino({ level: 'silent' }), health);
if (name === 'bare') {
  for (const path of ['/v1/batch', '/v1/track'])
    app.post(path, { bodyLimit: 512_000 }, async () => ({ success: true }));
} else if (name === 'stored') {
  const store = await openStore({ url: `sqlite:${file}`, maxQueued: 100_000_000 }, systemClock);
  const take = async (sent: readonly Sent[]) => {
    await store.accept({ messages: sent.map(rowOf), step: null });
    return { success: true };
  };
  app.post('/v1/batch', { bodyLimit: 512_000 }, ({ body }) => take((body as { batch: readonly Sent[] }).batch));
  app.post('/v1/track', ({ body }) => take([body as Sent]));
} else if (name === 'checked') {
  await app.register(collect, { sources: () => sources, clock: systemClock, accept: async () => {} });
} else {
  // Delivery stays off: it would share the processor, and is measured elsewhere.
  const store = await openStore({ url: `sqlite:${file}`, maxQueued: 100_000_000 }, systemClock);
  const accept = createAccept(store, () => destinations);
  await app.register(collect, { sources: () => sources, clock: systemClock, accept });
}
await app.listen({ port: 0, host: '127.0.0.1' });
process.send?.((app.server.address() as AddressInfo).port);
