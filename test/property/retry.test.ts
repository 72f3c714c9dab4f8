import fc from 'fast-check';
import t from 'tap';
import {
  ATTEMPT_TIMEOUT,
  BACKOFF_BASE,
  BACKOFF_CAP,
  backoff,
  nextTry,
  RETRY_WINDOW,
  retryAfter,
} from '../../src/kernel/retry.ts';

const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const time = fc.integer({ min: 0, max: 4_102_444_800_000 });
const input = fc.record({
  tries: fc.integer({ min: 1, max: 1_000 }),
  firstAt: time,
  elapsed: fc.integer({ min: 0, max: RETRY_WINDOW * 2 }),
  wait: fc.option(fc.integer({ min: -RETRY_WINDOW, max: RETRY_WINDOW * 3 })),
  random: chance,
});

t.test('schedules the next try as an integer, never in the past or beyond the four hours', async (t) => {
  fc.assert(
    fc.property(input, ({ tries, firstAt, elapsed, wait, random }) => {
      const now = firstAt + elapsed;
      const dueAt = nextTry({ tries, firstAt, now, notBefore: wait === null ? null : now + wait, random });
      const latest = firstAt + RETRY_WINDOW - ATTEMPT_TIMEOUT;
      if (dueAt === null) return now >= latest;
      return Number.isInteger(dueAt) && dueAt >= now && dueAt <= latest;
    }),
  );
  t.pass();
});

t.test('never retries before Retry-After, within the four hours', async (t) => {
  fc.assert(
    fc.property(input, ({ tries, firstAt, elapsed, wait, random }) => {
      const now = firstAt + elapsed;
      const without = nextTry({ tries, firstAt, now, notBefore: null, random });
      const notBefore = now + (wait ?? 0);
      const dueAt = nextTry({ tries, firstAt, now, notBefore, random });
      if (without === null || dueAt === null) return without === dueAt;
      return dueAt >= without && dueAt >= Math.min(notBefore, firstAt + RETRY_WINDOW - ATTEMPT_TIMEOUT);
    }),
  );
  t.pass();
});

t.test('pauses for any time below the exponential step, which doubles up to its cap', async (t) => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 10_000 }), chance, (tries, random) => {
      const step = Math.min(BACKOFF_CAP, BACKOFF_BASE * 2 ** (tries - 1));
      const pause = backoff(tries, random);
      return pause >= 0 && pause < step && Math.abs(pause - random * step) < 1e-6;
    }),
  );
  t.pass();
});

const date = fc
  .date({ min: new Date(0), max: new Date('9999-12-31'), noInvalidDate: true })
  .map((at) => at.toUTCString());

t.test('reads any HTTP date as meant, and any text without harm', async (t) => {
  fc.assert(
    fc.property(fc.date({ min: new Date(0), max: new Date('2099-12-31'), noInvalidDate: true }), (date) => {
      const from = Math.floor(date.getTime() / 1_000) * 1_000 - 60_000;
      return retryAfter(date.toUTCString(), undefined, from) === 60_000;
    }),
  );
  fc.assert(
    fc.property(fc.oneof(fc.string(), date), fc.oneof(fc.string(), date), time, (text, sent, now) => {
      const wait = retryAfter(text, sent, now);
      return wait === null || (wait >= 0 && wait <= RETRY_WINDOW);
    }),
  );
  t.pass();
});
