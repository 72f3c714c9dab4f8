import { systemClock } from '../../../src/clock.ts';
import { EventLogKeeper } from '../../../src/events/keeper.ts';
import { armFailpoint, type Failpoint } from '../../../src/failpoint.ts';
import { openStore } from '../../../src/store/open.ts';
import { DAY, HOUR, KEEP, type Orders, type Said, START } from './crash-terms.ts';

/**
 * One life of a process with an event log: takes events, seals, merges, drops and deletes, until its failpoint ends it, and
 * tells its parent what is acknowledged.
 */
const orders = JSON.parse(process.argv[2] ?? '{}') as Orders;
const say = (said: Said) => new Promise<void>((resolve) => process.send?.(said, () => resolve()));

let now = START + orders.life * 5 * HOUR;
const clock = { ...systemClock, now: () => now, monotonic: () => now, uptime: () => now };
// Before the store's thread starts, which takes it over.
if (orders.failpoint) armFailpoint(orders.failpoint as Failpoint, orders.passes);
const store = await openStore({ url: `sqlite:${orders.folder}/rollcall.db`, maxQueued: 1_000 }, clock);
const parts = { store, clock, folder: `${orders.folder}/events`, keep: () => KEEP, log: { info() {}, warn: fail } };
function fail(details: object): void {
  throw (details as { err?: unknown }).err;
}

/** The deletion that an earlier life did not end goes on, as an open request does. */
if (orders.erasing) {
  await new EventLogKeeper(parts).erase([{ users: [orders.erasing], sources: null }]);
  await say({ erased: orders.erasing });
}

for (let step = 0; step < orders.steps; step += 1) {
  const ids = Array.from({ length: 12 }, (_, n) => `${orders.life}-${step}-${n}`);
  const at = new Date(now).toISOString();
  await store.accept({
    step: null,
    logged: true,
    messages: ids.map((id, n) => {
      const userId = n === 0 ? `doomed-${orders.life}-${step}` : `u${n}`;
      const body = { version: 1, type: 'track', messageId: id, event: 'A', userId, timestamp: at, receivedAt: at };
      const rest = { destinations: [], lane: 'live', conflict: null } as const;
      return { source: 'shop', messageId: id, type: 'track', userId, body: JSON.stringify(body), ...rest } as const;
    }),
  });
  await say({ acknowledged: ids, day: at.slice(0, 10) });
  const keeper = new EventLogKeeper(parts);
  if (step % 3 === 1) await keeper.stop();
  else await keeper.start();
  if (step % 4 === 3) {
    const user = `doomed-${orders.life}-${step - 1}`;
    await say({ erasing: user });
    await new EventLogKeeper(parts).erase([{ users: [user], sources: null }]);
    await say({ erased: user });
  }
  now += 11 * 60_000;
  if (step % 10 === 9) now += DAY;
}
await store.close();
// The keepers' timers are of no concern any more.
process.exit(0);
