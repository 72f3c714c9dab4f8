import fc from 'fast-check';
import t from 'tap';
import { Rate } from '../../../src/deliver/endpoint/rate.ts';
import { ManualClock } from '../../helpers/clock.ts';

const STEP = 10;
const BURST = 0.1;

/** Takes all that it allows for so long; resolves to how many that were. */
function drain(clock: ManualClock, rate: Rate, seconds: number): number {
  let taken = 0;
  for (let passed = 0; passed < seconds * 1_000; passed += STEP) {
    clock.advance(STEP);
    while (rate.take()) taken += 1;
  }
  return taken;
}

t.test('keeps to a rate limit, whenever it is asked', async (t) => {
  const asks = fc.array(fc.record({ pause: fc.nat(500), count: fc.nat(50) }), { maxLength: 60 });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 500 }), asks, (perSecond, asked) => {
      const clock = new ManualClock();
      const rate = new Rate(clock, perSecond);
      let taken = 0;
      for (const { pause, count: wanted } of asked) {
        clock.advance(pause);
        for (let tries = 0; tries < wanted; tries += 1) if (rate.take()) taken += 1;
      }
      return taken <= (clock.monotonic() / 1_000) * perSecond + Math.max(1, perSecond * BURST) + 1e-6;
    }),
  );
  t.pass();
});

for (const perSecond of [1, 40, 200]) {
  t.test(`allows all of ${perSecond} a second under constant work, and a burst after a rest`, async (t) => {
    const clock = new ManualClock();
    const rate = new Rate(clock, perSecond);
    drain(clock, rate, 60);
    const taken = drain(clock, rate, 60);
    t.ok(Math.abs(taken - 60 * perSecond) <= 1, `${taken} in a minute`);
    clock.advance(60_000);
    t.equal(rate.available, Math.max(1, perSecond * BURST));
  });
}

t.test('allows half a burst after its delay', async (t) => {
  const clock = new ManualClock();
  const rate = new Rate(clock, 200);
  while (rate.take());
  const { delay } = rate;
  clock.advance(delay - 1);
  t.ok(rate.available < 10);
  clock.advance(1);
  t.equal(rate.available, 10);
});

t.test('applies a changed limit at once', async (t) => {
  const clock = new ManualClock();
  const rate = new Rate(clock, 200);
  rate.change(40);
  t.equal(rate.available, 4, 'the burst is no larger than its own');
  rate.change(null);
  t.equal(rate.available, Number.POSITIVE_INFINITY);
  clock.advance(60_000);
  rate.change(10);
  t.equal(rate.available, 0, 'the time without a limit is not made up for');
  clock.advance(100);
  t.equal(rate.available, 1);
});
