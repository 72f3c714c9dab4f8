import { join } from 'node:path';
import fc from 'fast-check';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { App } from '../../src/app.ts';
import { systemClock } from '../../src/clock.ts';
import { loadConfig } from '../../src/config/load.ts';
import { DestinationQueue } from '../../src/deliver/destination-queue.ts';
import { type Rate, Rates } from '../../src/deliver/rate.ts';
import { type Destination, endpointId } from '../../src/destination.ts';
import type { Message } from '../../src/message.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';
import { startInbox, writeConfig } from '../collect/running.ts';
import { ManualClock } from '../helpers/clock.ts';
import { destination } from './helpers/rig.ts';

const STEP = 10;
const BURST = 0.1;

/** Buckets of one destination for so many databases. */
function buckets(count: number, perSecond: number): { clock: ManualClock; rates: Rate[] } {
  const clock = new ManualClock();
  const all = new Rates(clock);
  return { clock, rates: Array.from({ length: count }, () => all.bucket('crm', perSecond)) };
}

/** Takes all that these allow for so long, in turn; how many each got. */
function drain(clock: ManualClock, rates: readonly Rate[], seconds: number): number[] {
  const taken = rates.map(() => 0);
  for (let passed = 0; passed < seconds * 1_000; passed += STEP) {
    clock.advance(STEP);
    for (const [index, rate] of rates.entries()) while (rate.take()) taken[index] = (taken[index] ?? 0) + 1;
  }
  return taken;
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

t.test('whoever asks when, a rate limit is kept to over all databases', async (t) => {
  const asks = fc.array(fc.record({ pause: fc.nat(500), by: fc.nat(3), count: fc.nat(50) }), { maxLength: 60 });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 500 }), asks, (count, perSecond, asked) => {
      const { clock, rates } = buckets(count, perSecond);
      let taken = 0;
      for (const { pause, by, count: wanted } of asked) {
        clock.advance(pause);
        for (let tries = 0; tries < wanted; tries += 1) if (rates[by % count]?.take()) taken += 1;
      }
      const bursts = count * Math.max(1, perSecond * BURST);
      return taken <= (clock.monotonic() / 1_000) * perSecond + bursts + 1e-6;
    }),
  );
  t.pass();
});

for (const perSecond of [1, 40, 200]) {
  t.test(`databases with work share ${perSecond} a second equally, and one alone gets all of it`, async (t) => {
    const { clock, rates } = buckets(3, perSecond);
    const [a, b, c] = rates as [Rate, Rate, Rate];
    drain(clock, [a, b, c], 60);
    const shared = drain(clock, [a, b, c], 60);
    t.ok(Math.max(...shared) - Math.min(...shared) <= perSecond * 0.2 + 1, shared.join(', '));
    t.ok(Math.abs(sum(shared) - 60 * perSecond) <= 3 + perSecond * BURST, `${sum(shared)} of all`);
    drain(clock, [a], 60);
    const [alone = 0] = drain(clock, [a], 60);
    t.ok(Math.abs(alone - 60 * perSecond) <= 1 + perSecond * BURST, `${alone} alone`);
    t.ok(c.available >= 1, 'the others can start at once');
  });
}

t.test('a bucket without a limit takes nothing from the others', async (t) => {
  const { clock, rates } = buckets(2, 200);
  const [limited, other] = rates as [Rate, Rate];
  other.change(null);
  drain(clock, [limited], 10);
  t.same(drain(clock, [limited], 10), [2_000]);
  t.equal(other.available, Number.POSITIVE_INFINITY);
});

t.test('a destination that is removed leaves its part to the others, and shares again once it is back', async (t) => {
  const clock = new ManualClock();
  const rates = new Rates(clock);
  const other = rates.bucket('crm', 1);
  const claim = {
    ...({ id: 'd', destination: 'crm', source: 'shop', messageId: 'm', type: 'track', userId: null } as const),
    ...({ body: '{}', lane: 'live', conflict: null, run: null, tries: 0, acceptedAt: 0, firstAt: null } as const),
    marks: {},
  };
  for (let reload = 0; reload < 3; reload += 1) {
    const queue = new DestinationQueue(
      destination('http://127.0.0.1:9/', { ratePerSecond: 1 }),
      'Rollcall',
      new Map(),
      {
        ...{ clock, rates, holdsClaims: () => true, isStopping: () => false, post: () => new Promise(() => {}) },
        ...{ onSettled() {}, onUndeliverable() {}, onEndpointChange() {}, onRoom() {} },
      },
    );
    queue.add([claim]);
    t.ok(other.take());
    clock.advance(1_000);
    t.equal(other.available, 0, 'a half each');
    queue.retire();
    clock.advance(500);
    t.equal(other.available, 1, 'all of it');
  }
});

interface Started {
  readonly apps: readonly App[];
  /** What was delivered: to which destination, by which app and from which database, by its id. */
  readonly delivered: { readonly destination: string; readonly app: number; readonly store: string }[];
  /** Lets time pass in steps, in which the stores are given time to answer. */
  readonly pass: (ms: number) => Promise<void>;
}

const SOURCES = Array.from({ length: 20 }, (_, n) => `source-${n}`);

/** So many processes on the same databases; each of the destinations gets all that there is, 20 a second at most. */
async function start(t: Test, count: number, urls: readonly string[], names: readonly string[]): Promise<Started> {
  const inbox = await startInbox(t);
  const sources = Object.fromEntries(SOURCES.map((id) => [id, { connected: true }]));
  const config = loadConfig(writeConfig(t.testdirName, inbox, sources));
  const [model] = config.destinations as [Destination];
  const destinations = names.map((name) => {
    const endpoints = [{ id: endpointId(name, inbox.url), url: inbox.url, headers: {} }];
    return { ...model, name, endpoints, ratePerSecond: 20 };
  });
  const clock = new ManualClock();
  const apps: App[] = [];
  const delivered: Started['delivered'] = [];
  for (let app = 0; app < count; app += 1) {
    const write = (line: string) => {
      const { msg, destination, delivery } = JSON.parse(line);
      if (msg === 'delivered') delivered.push({ destination, app, store: delivery.split('-')[0] });
    };
    const log = pino({ level: 'debug' }, { write });
    const started = await App.create({ ...config, destinations, store: { ...config.store, urls } }, { log, clock });
    t.teardown(() => started.close());
    await started.start({ collect: false, schedules: false });
    apps.push(started);
  }
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 100) {
      clock.advance(100);
      for (let turn = 0; turn < 4; turn += 1) {
        await Promise.all(apps.map((app) => app.store.backlog()));
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
  };
  return { apps, delivered, pass };
}

/** More than the limit allows in ten seconds. */
async function sendAll({ apps: [app] }: Started): Promise<void> {
  for (const id of SOURCES)
    await app?.accept(
      id,
      Array.from({ length: 40 }, (_, n) => track(`${id}-${n}`)),
    );
}

t.test('the workers of one process keep to one rate limit, whatever database a delivery is in', async (t) => {
  const folder = t.testdir({});
  const urls = ['a', 'b', 'c'].map((name) => `sqlite:${join(folder, `${name}.db`)}`);
  const started = await start(t, 1, urls, ['crm']);
  await sendAll(started);
  await started.pass(10_000);
  const rate = started.delivered.length / 10;
  t.ok(rate > 12 && rate <= 21, `${rate} a second`);
});

t.test(
  'of six processes the same four serve a destination on every database, and keep to its rate limit',
  async (t) => {
    const folder = t.testdir({});
    const paths = ['a', 'b'].map((name) => join(folder, `${name}.db`));
    // Its owners have other ids than those of the first.
    const other = await openSqliteStore({ path: paths[1] as string, maxQueued: 1, clock: systemClock });
    for (let owner = 0; owner < 5; owner += 1) await other.leave(await other.join(1_000));
    await other.close();
    const names = ['crm', 'mail', 'ads'];
    const urls = paths.map((path) => `sqlite:${path}`);
    const started = await start(t, 6, urls, names);
    // A heartbeat tells the first ones of the last.
    await started.pass(6_000);
    await sendAll(started);
    await started.pass(10_000);
    for (const name of names) {
      const ofIt = started.delivered.filter(({ destination }) => destination === name);
      const servers = [...Map.groupBy(ofIt, ({ store }) => store).values()].map((ofStore) =>
        [...new Set(ofStore.map(({ app }) => app))].sort(),
      );
      t.equal(servers[0]?.length, 4);
      t.same(servers, [servers[0], servers[0]]);
      // Each of the four has a burst of one for each of the two.
      t.ok(ofIt.length > 120 && ofIt.length <= 200 + 8, `${ofIt.length} of ${name} in ten seconds`);
    }
  },
);

function track(messageId: string): Message {
  const body = JSON.stringify({ version: 1, type: 'track', event: 'e', messageId });
  return { type: 'track', messageId, userId: null, integrations: null, body };
}
