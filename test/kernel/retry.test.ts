import t from 'tap';
import { ATTEMPT_TIMEOUT, nextTry, RETRY_WINDOW, retryAfter } from '../../src/kernel/retry.ts';

const now = Date.UTC(2026, 0, 1);
const base = { firstAt: now, now, notBefore: null, random: 0.999999 };

t.test('doubles the pause from one second up to five minutes, with full jitter', async (t) => {
  const longest = [1, 2, 3, 4, 9, 10, 50].map((tries) => nextTry({ ...base, tries })! - now);
  t.same(longest, [1_000, 2_000, 4_000, 8_000, 256_000, 300_000, 300_000]);
  t.equal(nextTry({ ...base, tries: 5, random: 0 }), now);
  t.equal(nextTry({ ...base, tries: 5, random: 0.5 }), now + 8_000);
});

t.test('only delays by Retry-After', async (t) => {
  t.equal(nextTry({ ...base, tries: 1, notBefore: now + 60_000 }), now + 60_000);
  t.equal(nextTry({ ...base, tries: 1, notBefore: now + 10 }), now + 1_000);
  t.equal(nextTry({ ...base, tries: 1, notBefore: now - 60_000 }), now + 1_000);
});

t.test('ends the last try within the four hours', async (t) => {
  const latest = now + RETRY_WINDOW - ATTEMPT_TIMEOUT;
  t.equal(nextTry({ ...base, tries: 20, notBefore: now + 5 * 3_600_000 }), latest);
  t.equal(nextTry({ ...base, tries: 20, now: latest - 1 }), latest);
  t.equal(nextTry({ ...base, tries: 20, now: latest }), null);
  t.equal(nextTry({ ...base, tries: 20, now: latest + 10 * RETRY_WINDOW }), null);
});

t.test('reads Retry-After in seconds and in the three date formats of HTTP', async (t) => {
  t.equal(retryAfter('120', undefined, now), 120_000);
  t.equal(retryAfter(' 0 ', undefined, now), 0);
  const before = Date.UTC(1994, 10, 6, 8, 49, 7);
  t.equal(retryAfter('Sun, 06 Nov 1994 08:49:37 GMT', undefined, before), 30_000);
  t.equal(retryAfter('Sunday, 06-Nov-94 08:49:37 GMT', undefined, before), 30_000);
  t.equal(retryAfter('Sun Nov  6 08:49:37 1994', undefined, before), 30_000);
});

t.test("measures a date from the response's own date, so that neither clock need be right", async (t) => {
  const date = new Date(now - 5 * 3_600_000);
  const inAMinute = new Date(date.getTime() + 60_000).toUTCString();
  t.equal(retryAfter(inAMinute, date.toUTCString(), now), 60_000);
  t.equal(retryAfter(inAMinute, 'Sun, soon', now), 0, 'one that is past');
  t.equal(retryAfter('120', date.toUTCString(), now), 120_000);
});

t.test('limits absurd values of Retry-After to four hours', async (t) => {
  t.equal(retryAfter('9999999999', undefined, now), RETRY_WINDOW);
  t.equal(retryAfter('99999999999', undefined, now), RETRY_WINDOW);
  t.equal(retryAfter('9'.repeat(400), undefined, now), RETRY_WINDOW, 'more than a number holds');
  t.equal(retryAfter('Fri, 31 Dec 9999 23:59:59 GMT', undefined, now), RETRY_WINDOW);
  t.equal(retryAfter('Fri, 31 Dec 9999 23:59:59 GMT', 'Thu, 01 Jan 1970 00:00:00 GMT', now), RETRY_WINDOW);
});

t.test('ignores anything else in Retry-After', async (t) => {
  const useless = [undefined, '', ' ', '-5', '1.5', '5s', '1e3', '0x10', 'soon', '2026-01-01', 'Sun, soon'];
  for (const value of useless) t.equal(retryAfter(value, undefined, now), null, String(value));
});
