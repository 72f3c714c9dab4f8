import { writeSync } from 'node:fs';
import { systemClock } from '../../src/clock.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';

// Accepts one message after the other, and says so on standard output once each is accepted.
const store = await openSqliteStore({ path: process.argv[2] as string, maxQueued: 1_000, clock: systemClock });
for (let index = 0; index < 20; index += 1) {
  const message = { source: 'shop', messageId: `m${index}`, type: 'track', userId: 'u1', body: '{}' } as const;
  const routed = { ...message, destinations: ['crm'], lane: 'live', conflict: null } as const;
  await store.accept({ messages: [routed], step: null });
  writeSync(1, `acknowledged ${index}\n`);
}
await store.close();
