/** Fills the tail of a log, and seals it: `sealing.ts FOLDER`. Tells its figures. */
import { join } from 'node:path';
import { EventLogKeeper } from '../../src/events/keeper.ts';
import { summaryOf } from '../../src/events/summary.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { silentLogger } from '../../src/kernel/log.ts';
import { folderFiles } from '../../src/store/events/files.ts';
import { openStore } from '../../src/store/open.ts';
import { peakMemoryMb } from '../harness.ts';

const [root = ''] = process.argv.slice(2);
const EVENTS = 300_000;
const BATCH = 100;

/** An order as collection stores it; every tenth has a user of its own, and what it says differs. */
function bodyOf(index: number): string {
  const at = new Date(Date.now() - 5_000).toISOString();
  return JSON.stringify({
    ...{ version: 1, type: 'track', messageId: `node-next-${index}-e2d0-470a-9825-${(index * 7919) % 99_991}` },
    ...{ userId: `user-${(index * 7919) % (EVENTS / 10)}`, event: 'Order Completed', timestamp: at, receivedAt: at },
    properties: {
      ...{ orderId: `o-${index}`, total: ((index * 31) % 20_000) / 100, currency: 'EUR' },
      items: [{ sku: `a-${index % 500}`, quantity: 1 + (index % 3) }],
    },
    context: { library: { name: '@segment/analytics-node', version: '3.1.0' } },
    integrations: {},
  });
}

const folder = join(root, 'events');
const store = await openStore({ url: `sqlite:${join(root, 'rollcall.db')}`, maxQueued: 1 }, systemClock);
let bytes = 0;
for (let start = 0; start < EVENTS; start += BATCH) {
  const messages = Array.from({ length: BATCH }, (_, index) => {
    const body = bodyOf(start + index);
    bytes += body.length;
    const rest = { destinations: [], lane: 'live', conflict: null } as const;
    return { source: 'shop', messageId: `m${start + index}`, type: 'track', userId: null, body, ...rest } as const;
  });
  await store.accept({ messages, step: null, logged: true });
}
const keeper = new EventLogKeeper({
  store,
  live: store.live,
  clock: systemClock,
  log: silentLogger,
  files: folderFiles(folder),
  keep: () => 1e12,
});
const before = process.cpuUsage();
const start = performance.now();
await keeper.stop();
const seconds = (performance.now() - start) / 1000;
const { user, system } = process.cpuUsage(before);
const sealed = await summaryOf(store.events);
await store.close();
process.send?.({
  ...{ perSecond: EVENTS / seconds, cpuMicros: (user + system) / EVENTS, memoryMb: peakMemoryMb() },
  ...{ jsonBytes: bytes / EVENTS, diskBytes: sealed.bytes / EVENTS },
});
