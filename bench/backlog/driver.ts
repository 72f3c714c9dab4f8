/** Fills a store with a backlog, then claims and settles some of it, as a worker would, in a process of its own. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { systemClock } from '../../src/kernel/clock.ts';
import { openStore } from '../../src/store/open.ts';
import type { Settlement } from '../../src/store/port.ts';
import { itemMaker } from '../forward/work.ts';
import { peakMemoryMb } from '../harness.ts';

const { folder, backlog, claims } = JSON.parse(process.argv[2] ?? '{}') as {
  folder: string;
  backlog: number;
  claims: number;
};
const BATCH = 500;
const item = itemMaker(0.8);
const url = `sqlite:${join(folder, 'rollcall.db')}`;
const store = await openStore({ url, maxQueued: 10_000_000 }, systemClock);
for (let next = 0; next < backlog; next += BATCH) {
  const messages = Array.from({ length: BATCH }, (_, index) => {
    const { body } = item(next + index);
    const routed = { destinations: ['crm'], lane: 'live', conflict: null } as const;
    return { source: 'shop', messageId: randomUUID(), type: 'track' as const, userId: null, body, ...routed };
  });
  await store.accept({ messages, step: null });
}
const owner = await store.join(3_600_000);
let claimMs = 0;
let settleMs = 0;
for (let done = 0; done < claims; done += BATCH) {
  const startedAt = performance.now();
  const result = await store.claim(owner, [{ destination: 'crm', limit: BATCH, order: 'usual' }]);
  const claimed = result.claims[0] ?? [];
  if (claimed.length < BATCH) throw new Error(`Only ${claimed.length} were claimed.`);
  const claimedAt = performance.now();
  const settlements = claimed.map((claim): Settlement => ({ claim, verdict: { kind: 'delivered' }, attempts: [] }));
  await store.settle(owner, settlements);
  claimMs += claimedAt - startedAt;
  settleMs += performance.now() - claimedAt;
}
const micros = (ms: number) => (ms * 1_000) / claims;
process.send?.({ claimMicros: micros(claimMs), settleMicros: micros(settleMs), memoryMb: peakMemoryMb() });
await once(process, 'message');
process.exit();
