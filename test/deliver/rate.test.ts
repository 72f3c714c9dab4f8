import { join } from 'node:path';
import fc from 'fast-check';
import { pino } from 'pino';
import t from 'tap';
import { App } from '../../src/app.ts';
import { loadConfig } from '../../src/config/load.ts';
import { type Rate, Rates } from '../../src/deliver/rate.ts';
import type { Message } from '../../src/message.ts';
import { startInbox, writeConfig } from '../collect/running.ts';
import { ManualClock } from '../helpers/clock.ts';

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

t.test('the workers of one process keep to one rate limit, whatever database a delivery is in', async (t) => {
  const ids = Array.from({ length: 20 }, (_, n) => `source-${n}`);
  const inbox = await startInbox(t);
  const folder = t.testdir({});
  const config = loadConfig(writeConfig(folder, inbox, Object.fromEntries(ids.map((id) => [id, { connected: true }]))));
  const urls = ['a', 'b', 'c'].map((name) => `sqlite:${join(folder, `${name}.db`)}`);
  const destinations = config.destinations.map((destination) => ({ ...destination, ratePerSecond: 20 }));
  const clock = new ManualClock();
  const log = pino({ level: 'silent' });
  const app = await App.create({ ...config, destinations, store: { ...config.store, urls } }, { log, clock });
  t.teardown(() => app.close());
  await app.start({ collect: false, schedules: false });
  for (const id of ids)
    await app.accept(
      id,
      Array.from({ length: 40 }, (_, n) => track(`${id}-${n}`)),
    );
  for (let passed = 0; passed < 10_000; passed += 50) {
    clock.advance(50);
    for (let turn = 0; turn < 4; turn += 1) {
      await app.store.backlog();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  const rate = inbox.webhooks.length / 10;
  t.ok(rate > 12 && rate <= 21, `${rate} a second`);
});

function track(messageId: string): Message {
  const body = JSON.stringify({ version: 1, type: 'track', event: 'e', messageId });
  return { type: 'track', messageId, userId: null, integrations: null, body };
}
