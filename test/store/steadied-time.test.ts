import fc from 'fast-check';
import t from 'tap';
import { SteadiedTime } from '../../src/store/steadied-time.ts';
import { ManualClock } from '../helpers/clock.ts';

const HOUR = 3_600_000;

for (const hours of [1, -1, 5, -5, 24 * 365 * 30]) {
  t.test(`ignores a step of ${hours} h`, async (t) => {
    const clock = new ManualClock();
    const time = new SteadiedTime(clock);
    const before = time.now();
    clock.stall(20);
    clock.jump(hours * HOUR);
    t.equal(time.now(), before + 20);
    t.equal(time.toWall(before + 20), clock.now(), 'people see the time as the clock is set now');
    clock.stall(10 * HOUR);
    t.equal(time.now(), before + 20 + 10 * HOUR);
    clock.jump(-hours * HOUR);
    t.equal(time.now(), before + 20 + 10 * HOUR);
    t.equal(time.offset, 0);
  });
}

t.test('counts a suspension as passed time', async (t) => {
  const clock = new ManualClock();
  const time = new SteadiedTime(clock);
  const before = time.now();
  clock.suspend(5 * HOUR);
  t.equal(time.now(), before + 5 * HOUR);
  t.equal(time.offset, 0);
});

t.test('ignores a step of the clock during a suspension', async (t) => {
  const clock = new ManualClock();
  const time = new SteadiedTime(clock);
  const before = time.now();
  clock.suspend(2 * HOUR);
  clock.jump(-3 * HOUR);
  t.equal(time.now(), before + 2 * HOUR);
});

t.test('follows slow drift: the wall clock is better in the long run', async (t) => {
  const clock = new ManualClock();
  const time = new SteadiedTime(clock);
  for (let second = 0; second < 10_000; second += 1) {
    clock.stall(1_000);
    clock.jump(1);
    time.now();
  }
  t.equal(time.now(), clock.now());
  t.equal(time.offset, 0);
});

t.test('sees no step if the process is stopped between two readings of its clocks', async (t) => {
  const clock = new ManualClock();
  const time = new SteadiedTime(clock);
  const now = clock.now.bind(clock);
  let stops = 1;
  clock.now = () => {
    const wall = now();
    if (stops > 0) clock.stall(10_000);
    stops -= 1;
    return wall;
  };
  clock.stall(5);
  time.now();
  t.equal(time.offset, 0);
});

const event = fc.oneof(
  fc.record({ do: fc.constantFrom('pass' as const, 'suspend' as const), ms: fc.integer({ min: 0, max: 6 * HOUR }) }),
  fc.record({ do: fc.constant('step' as const), ms: fc.integer({ min: -10 * HOUR, max: 10 * HOUR }) }),
);

t.test('follows the time really passed, whatever happens to the clocks', async (t) => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 60 }), (events) => {
      const clock = new ManualClock();
      const time = new SteadiedTime(clock);
      let slack = 0;
      for (const { do: what, ms } of events) {
        if (what === 'pass') clock.stall(ms);
        else if (what === 'suspend') clock.suspend(ms);
        else clock.jump(ms);
        // A step too small to tell from drift, or close to the length of a suspension, is followed.
        slack += what === 'step' ? 1_500 : 0;
        if (Math.abs(time.now() - clock.true) > slack || !Number.isInteger(time.now())) return false;
      }
      return true;
    }),
  );
  t.pass();
});
