/** A service with a log: it begins a send when it is asked to, and tells its parent once all of it is delivered. */
import { setTimeout } from 'node:timers/promises';
import { pino } from 'pino';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';
import { EventLogKeeper } from '../../src/events/keeper.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { folderFiles } from '../../src/store/events/files.ts';
import type { Store } from '../../src/store/port.ts';
import type { Sent, Work } from './work.ts';

const { folder, events, days, livePort, latePort } = JSON.parse(process.argv[2] ?? '{}') as Work;
const DAY = 86_400_000;
const PART = 2_000;

const url = (port: number) => `http://127.0.0.1:${port}/`;
const text = JSON.stringify({
  store: 'sqlite:./rollcall.db',
  listen: { host: '127.0.0.1', port: 0 },
  network: { allow: ['127.0.0.0/8'] },
  eventLog: { path: './events', keep: '400d' },
  sources: [
    { id: 'shop', writeKey: 'key' },
    { id: 'web', writeKey: 'web-key' },
  ],
  destinations: [
    { name: 'live', sources: ['web'], sharedSecret: 's', webhookUrl: url(livePort) },
    {
      ...{ name: 'late', sources: ['shop'], types: ['track'], sharedSecret: 's' },
      webhooks: [{ url: url(latePort), batch: { size: 500 } }],
    },
  ],
});
const config = parseConfig(text, { file: 'rollcall.yaml', folder, env: {} });
const app = await App.create(config, { log: pino({ level: 'warn' }, pino.destination(2)) });
await fill(app.store);
await app.start({ collect: true, schedules: true });

/** Events of the last days, sealed each 100,000 as a busy service does. */
async function fill(store: Store): Promise<void> {
  const keeper = () =>
    new EventLogKeeper({
      ...{ store, live: store.live, clock: systemClock, files: folderFiles(`${folder}/events`), keep: () => 400 * DAY },
      log: { info() {}, warn: (details) => console.error(details) },
    });
  const begin = systemClock.now() - days * DAY;
  for (let from = 0; from < events; from += PART) {
    const messages = Array.from({ length: Math.min(PART, events - from) }, (_, index) => {
      const number = from + index;
      const at = new Date(begin + Math.floor((number / events) * (days - 1) * DAY)).toISOString();
      const [messageId, userId] = [`m${number}`, `u${(number * 7_919) % 100_000}`];
      const type = number % 4 === 0 ? 'page' : 'track';
      const own = type === 'track' ? { event: 'Order Completed' } : { name: 'Checkout' };
      const properties = {
        total: number % 977,
        currency: 'EUR',
        products: [{ id: number % 91, note: 'x'.repeat(150) }],
      };
      const context = { library: { name: 'web', version: '1.0.0' }, page: { url: 'https://shop.example/checkout' } };
      const body = { version: 1, type, messageId, userId, ...own, properties, timestamp: at, receivedAt: at, context };
      const rest = { destinations: [], lane: 'live', conflict: null } as const;
      return { source: 'shop', messageId, type, userId, body: JSON.stringify(body), ...rest } as const;
    });
    await store.accept({ step: null, logged: true, messages });
    if (from % 100_000 === 0 || from + PART >= events) await keeper().stop();
  }
}

process.on('message', async () => {
  const { id } = await app.sends.begin({
    ...{ destination: 'late', since: 0, until: systemClock.now(), type: null, event: null, source: null },
  });
  for (;;) {
    const { send, deliveries } = await app.sends.find(id);
    if (send.state === 'done' && deliveries.delivered === deliveries.deliveries) {
      process.send?.({ sent: send.sent, delivered: deliveries.delivered } satisfies Sent);
      return;
    }
    await setTimeout(250);
  }
});
process.send?.(Number(new URL(app.address ?? '').port));
