import { join } from 'node:path';
import { createAccept } from '../../src/accept.ts';
import { createAgent } from '../../src/deliver/http/agent.ts';
import { Worker } from '../../src/deliver/worker.ts';
import { type Destination, endpointId } from '../../src/destination.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { silentLogger } from '../../src/kernel/log.ts';
import { openStore } from '../../src/store/open.ts';
import { type Forwarder, indexOf, messageId, SECRET, type Work } from './work.ts';

/** All of it: dedupe, attempt log, address guard, leases, and every message and verdict synced to disk. */
export async function rollcall({ url, ca, folder, onDelivered }: Work): Promise<Forwarder> {
  const file = `sqlite:${join(folder, 'rollcall.db')}`;
  const store = await openStore({ url: file, maxQueued: 10_000_000 }, systemClock);
  const destination: Destination = {
    name: 'crm',
    enabled: true,
    sources: ['shop'],
    secrets: [SECRET],
    endpoints: [{ id: endpointId('crm', url), url, headers: {} }],
    require: 'any',
    ratePerSecond: null,
  };
  const agent = createAgent({ allow: ['127.0.0.0/8'], ca, proxy: null });
  const worker = new Worker({
    store,
    clock: systemClock,
    agent,
    serviceName: 'Rollcall',
    destinations: [destination],
    attemptRetention: () => 86_400_000,
    removedAfter: () => 86_400_000,
    log: silentLogger,
    onSettled: ({ claim, verdict }) => {
      if (verdict.kind === 'delivered') onDelivered(indexOf(claim.messageId));
    },
  });
  await worker.start();
  const accept = createAccept(store, () => [destination], worker);
  return {
    async enqueue(items) {
      const messages = items.map(({ index, body }) => ({
        type: 'track' as const,
        messageId: messageId(index),
        userId: `user-${index % 5_000}`,
        integrations: null,
        body,
      }));
      await accept('shop', messages);
    },
    async stop() {
      await worker.stop();
      await store.close();
      await agent.close();
    },
  };
}
