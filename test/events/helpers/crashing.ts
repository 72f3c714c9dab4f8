import { EventLogKeeper } from '../../../src/events/keeper.ts';
import { systemClock } from '../../../src/kernel/clock.ts';
import { armFailpoint } from '../../../src/kernel/failpoint.ts';
import { filesOf } from '../../../src/store/events/open-files.ts';
import { openStore } from '../../../src/store/open.ts';
import { randomNumbers } from '../../crash/random.ts';
import { DAY, dayOf, MINUTE, type News, type Orders, type Said, STEPS, type Step } from './crash-terms.ts';

/**
 * One life of a process with an event log: takes events while it seals, merges, drops and deletes, until its failpoint or
 * its parent ends it, and tells its parent what is acknowledged.
 */
const orders = JSON.parse(process.argv[2] ?? '{}') as Orders;
const { life, crash } = orders;
const say = (news: News) =>
  new Promise<void>((resolve) => process.send?.({ ...news, now } satisfies Said, () => resolve()));

let { now, horizon } = orders;
let batches = 0;
const clock = { ...systemClock, now: () => now, monotonic: () => now, uptime: () => now };
// Before the store's thread starts, which takes it over. All others are for the step alone.
if (crash?.failpoint === 'commit' || crash?.failpoint === 'accept') armFailpoint(crash.failpoint, crash.passes);
const store = await openStore({ url: orders.url, maxQueued: 1_000 }, clock);
const isTable = store.events.kind === 'table';
const files = filesOf({ ...orders.place, keep: 1, sources: null });

/** Another process each time: none knows what an earlier one had done. */
function keeper(): EventLogKeeper {
  const keep = () => now - Date.parse(horizon);
  // A keeper whose timer fires while a step moves the time on by days would lose its lease, or keep the step from it.
  const untimed = { ...clock, roughly: () => () => {} };
  return new EventLogKeeper({ store, live: store.live, clock: untimed, files, keep, log: { info() {}, warn: fail } });
}

function fail(details: object): void {
  throw (details as { err?: unknown }).err;
}

/** Whose events these are stands in their ids. */
const userOf = (id: string) => id.slice(0, id.indexOf('/'));

async function accept(ids: readonly string[]): Promise<void> {
  const at = new Date(now).toISOString();
  await say({ sending: ids });
  await store.accept({
    step: null,
    logged: true,
    messages: ids.map((id) => {
      const userId = userOf(id);
      const body = { version: 1, type: 'track', messageId: id, event: 'A', userId, timestamp: at, receivedAt: at };
      const rest = { destinations: [], lane: 'live', conflict: null } as const;
      return { source: 'shop', messageId: id, type: 'track', userId, body: JSON.stringify(body), ...rest } as const;
    }),
  });
  await say({ acknowledged: ids });
}

function feed(user?: string): Promise<void> {
  batches += 1;
  const users = user === undefined ? ['u0', 'u1', 'u2', 'u3'] : [user, 'u4'];
  return accept(users.map((name) => `${name}/${life}-${batches}`));
}

async function erase(user: string): Promise<void> {
  await keeper().erase([{ ids: { users: [user], anonymous: [] }, sources: null }]);
  await say({ erased: user });
}

/** Makes something for a step to do; resolves to the work. */
const prepared: Readonly<Record<Step, () => Promise<() => Promise<void>>>> = {
  async seal() {
    await feed();
    return () => keeper().stop();
  },
  async merge() {
    for (let n = 0; n < 2; n += 1) {
      await feed();
      await keeper().stop();
    }
    now += DAY;
    return () => keeper().start();
  },
  async drop() {
    await (await prepared.merge())();
    horizon = (await oldest()) ?? horizon;
    await say({ dropping: horizon });
    return () => keeper().start();
  },
  async tidy() {
    await (await prepared.merge())();
    now += 11 * MINUTE;
    return () => keeper().start();
  },
  async erase() {
    const user = `doomed-${life}-${batches}`;
    await feed(user);
    await keeper().stop();
    await feed(user);
    await say({ erasing: user });
    return () => erase(user);
  },
  async prepare() {
    // The parts that an earlier day had made end before this one.
    now += 9 * DAY;
    await feed();
    return () => keeper().start();
  },
};

/** The day after the first one that has events. */
async function oldest(): Promise<string | null> {
  const { events } = store;
  const day =
    events.kind === 'files'
      ? ((await events.state()).files.map((file) => file.day).sort()[0] ?? null)
      : (await events.summary()).from;
  return day && dayOf(Date.parse(day) + DAY);
}

/** Takes events as long as something goes on beside it. */
async function beside(work: () => Promise<void>): Promise<void> {
  let isOver = false;
  const feeding = (async () => {
    while (!isOver) await feed();
  })();
  await work().finally(() => {
    isOver = true;
  });
  await feeding;
}

// As whoever sent them does, and as an open request.
if (orders.unsure.length > 0) await accept(orders.unsure);
if (orders.erasing) await erase(orders.erasing);
await keeper().start();

if (orders.step) {
  const work = await prepared[orders.step]();
  if (crash) armFailpoint(crash.failpoint, crash.passes);
  // A tail that fills makes a merge begin with a seal: what is to be met must come first.
  await (['seal', 'erase', 'prepare'].includes(orders.step) ? beside(work) : work());
} else {
  const random = randomNumbers(orders.seed);
  const steps = STEPS.filter((step) => isTable || step !== 'prepare');
  for (let n = 0; crash !== null || n < 4; n += 1) {
    const work = await prepared[steps[random(steps.length) - 1] as Step]();
    await beside(work);
  }
}
await store.close();
process.exit(0);
