/** Everything is in the store before it counts: what is measured is claims, posts, answers and settlements. */
import { join } from 'node:path';
import { conflictKey } from '../../jobs/audience-or-trait.ts';
import { bodyBuilder } from '../../jobs/run/identify-body.ts';
import { createAccept } from '../../src/accept.ts';
import { createAgent } from '../../src/deliver/http/agent.ts';
import { Worker } from '../../src/deliver/worker.ts';
import { type Destination, endpointId } from '../../src/destination.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { silentLogger } from '../../src/kernel/log.ts';
import { openStore } from '../../src/store/open.ts';
import { BATCH, SECRET, type Work } from './work.ts';

const PAGE = 1_000;

const { port, folder, calls, isBatched }: Work = JSON.parse(process.argv[2] ?? '{}');
const url = `http://127.0.0.1:${port}/hooks`;
const destination: Destination = {
  name: 'crm',
  enabled: true,
  sources: ['personas'],
  secrets: [SECRET],
  endpoints: [{ id: endpointId('crm', url), url, headers: {}, ...(isBatched && { batch: BATCH }) }],
  require: 'any',
  ratePerSecond: null,
};
const store = await openStore({ url: `sqlite:${join(folder, 'rollcall.db')}`, maxQueued: 10_000_000 }, systemClock);
const body = bodyBuilder({
  key: 'customers',
  name: 'Customers',
  kind: 'audience',
  columns: [],
  removed: [],
  at: systemClock.now(),
  now: systemClock.now,
});
const FIRST_SYNC = { reason: 'first_sync', changedAt: systemClock.now(), cause: null } as const;
const accept = createAccept(store, () => [destination]);
for (let from = 0; from < calls; from += PAGE) {
  const messages = Array.from({ length: Math.min(PAGE, calls - from) }, (_, index) => {
    const userId = String(from + index);
    const messageId = `bench-${userId}`;
    return {
      type: 'identify' as const,
      messageId,
      userId,
      integrations: null,
      body: body(messageId, { userId, present: true, value: null, sequence: 1, ...FIRST_SYNC }),
      conflict: conflictKey('customers', userId),
    };
  });
  await accept('personas', messages, { lane: 'backfill' });
}
process.send?.('ready');
process.once('message', async () => {
  const startedAt = performance.now();
  let delivered = 0;
  const worker = new Worker({
    store,
    clock: systemClock,
    agent: createAgent({ allow: ['127.0.0.0/8'], ca: [], proxy: null }),
    serviceName: 'Rollcall',
    destinations: [destination],
    attemptRetention: () => 86_400_000,
    removedAfter: () => 86_400_000,
    log: silentLogger,
    onSettled: ({ verdict }) => {
      if (verdict.kind === 'delivered') delivered += 1;
      if (delivered === calls) process.send?.({ calls, seconds: (performance.now() - startedAt) / 1_000 });
    },
  });
  await worker.start();
});
