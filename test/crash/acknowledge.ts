import { writeSync } from 'node:fs';
import { systemClock } from '../../src/kernel/clock.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';

// Accepts one message after the other, then batches so large that they are synced outside of SQLite, and says so on standard
// output once each is accepted.
const store = await openSqliteStore({ path: process.argv[2] as string, maxQueued: 100_000, clock: systemClock });
for (let index = 0; index < 25; index += 1) {
  const messages = Array.from({ length: index < 20 ? 1 : 1_500 }, (_, place) => {
    const message = {
      source: 'shop',
      messageId: `m${index}-${place}`,
      type: 'track',
      userId: 'u1',
      body: '{}',
    } as const;
    return { ...message, destinations: ['crm'], lane: 'live', conflict: null } as const;
  });
  await store.accept({ messages, step: null });
  writeSync(1, `acknowledged ${index}\n`);
}
await store.close();
