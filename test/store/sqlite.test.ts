import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Store } from '../../src/store/port.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';
import { storeContract } from '../contract/store.ts';
import { StandingClock } from '../contract/store-fixture.ts';

await storeContract('sqlite', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-store-'));
  const clock = new StandingClock();
  const opened: Store[] = [];
  return {
    clock,
    async open({ maxQueued = 1_000 } = {}) {
      const store = await openSqliteStore({ path: join(folder, 'store.db'), maxQueued, clock: clock.ahead() });
      opened.push(store);
      return store;
    },
    advance: async (ms) => clock.move(ms),
    async close() {
      await Promise.all(opened.map((store) => store.close()));
      await rm(folder, { recursive: true, force: true });
    },
  };
});
