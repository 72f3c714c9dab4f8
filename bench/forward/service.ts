import { pino } from 'pino';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';
import type { Settlement } from '../../src/store/port.ts';
import { type Forwarder, indexOf, messageId, SECRET, type Work } from './work.ts';

/** What the overview asks for, at most once a second. */
const PAGE = ['/overview', '/history?of=all&step=minute', '/alerts?limit=10'];

/**
 * The whole service, as `rollcall start` runs it: with its history, metrics and management API.
 *
 * @param isWatched - whether somebody has its overview open
 */
export async function service({ url, folder, onDelivered }: Work, isWatched: boolean): Promise<Forwarder> {
  const config = {
    store: { url: `sqlite:${folder}/rollcall.db`, maxQueued: 10_000_000 },
    listen: { host: '127.0.0.1', port: 0 },
    network: { allow: ['127.0.0.0/8'] },
    sources: [{ id: 'shop', writeKey: 'key' }],
    destinations: [{ name: 'crm', sources: ['shop'], sharedSecret: SECRET, webhookUrl: url }],
  };
  const parsed = parseConfig(JSON.stringify(config), { file: 'rollcall.yaml', folder, env: {} });
  const app = await App.create(parsed, { log: pino({ level: 'silent' }) });
  const settle = app.store.settle.bind(app.store);
  app.store.settle = async (owner: number, settlements: readonly Settlement[], keeps?: boolean) => {
    await settle(owner, settlements, keeps);
    for (const { claim, verdict } of settlements) {
      if (verdict.kind === 'delivered') onDelivered(indexOf(claim.messageId));
    }
  };
  await app.start({ collect: true, schedules: false });
  const page = isWatched ? await openPage(app.address ?? '') : null;
  return {
    async enqueue(items) {
      const messages = items.map(({ index, body }) => ({
        type: 'track' as const,
        messageId: messageId(index),
        userId: `user-${index % 5_000}`,
        integrations: null,
        body,
      }));
      await app.accept('shop', messages);
    },
    async stop() {
      await page?.close();
      await app.close();
    },
  };
}

/** Somebody who looks: a stream of what changes, and questions about it. */
async function openPage(address: string): Promise<{ close(): Promise<void> }> {
  const leaving = new AbortController();
  const { signal } = leaving;
  const stream = await fetch(`${address}/api/v1/events`, { signal });
  const heard = stream.body?.pipeTo(new WritableStream()).catch(() => undefined);
  const asking = setInterval(() => {
    for (const path of PAGE) {
      void fetch(`${address}/api/v1${path}`, { signal }).then(
        (response) => response.text(),
        () => undefined,
      );
    }
  }, 1_000);
  return {
    async close() {
      clearInterval(asking);
      leaving.abort();
      await heard;
    },
  };
}
