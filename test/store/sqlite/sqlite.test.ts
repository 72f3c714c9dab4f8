import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import type { Store } from '../../../src/store/port.ts';
import { openSqliteStore } from '../../../src/store/sqlite/store.ts';
import { storeContract } from '../../contract/store.ts';
import { StandingClock } from '../../contract/store-fixture.ts';
import { startSharedThread } from '../../helpers/store-threads.ts';

await storeContract(t, 'sqlite', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-store-'));
  const clock = new StandingClock();
  const opened: Store[] = [];
  return {
    clock,
    async open({ maxQueued = 1_000 } = {}) {
      const path = join(folder, 'store.db');
      const store = await openSqliteStore({ path, maxQueued, clock: clock.ahead(), startThread: startSharedThread });
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
