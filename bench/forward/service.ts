import { pino } from 'pino';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';
import type { Settlement } from '../../src/store/port.ts';
import { ADMIN_TOKEN, type Forwarder, indexOf, messageId, SECRET, type Work } from './work.ts';

/** The whole service, as `rollcall start` runs it: with its history, metrics and management API. */
export async function service({ url, folder, onDelivered }: Work): Promise<Forwarder> {
  const config = {
    store: { url: `sqlite:${folder}/rollcall.db`, maxQueued: 10_000_000 },
    listen: { host: '127.0.0.1', port: 0 },
    network: { allow: ['127.0.0.0/8'] },
    admin: { token: ADMIN_TOKEN },
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
  return {
    address: app.address ?? '',
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
    stop: () => app.close(),
  };
}
