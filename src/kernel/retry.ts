/** Base and cap of the backoff between tries of one delivery, in milliseconds (docs/delivery.md). */
export const BACKOFF_BASE = 1_000;
export const BACKOFF_CAP = 5 * 60_000;
/** Milliseconds after its first attempt within which a delivery is tried. */
export const RETRY_WINDOW = 4 * 3_600_000;
/** Time for one attempt from DNS to the response head, in milliseconds. */
export const ATTEMPT_TIMEOUT = 5_000;

interface RetryInput {
  /** Tries made, this one included. */
  readonly tries: number;
  readonly firstAt: number;
  readonly now: number;
  /** Earliest time at which the endpoint wants another try; null if it named none. */
  readonly notBefore: number | null;
  /** A number in [0, 1). */
  readonly random: number;
}

/**
 * The time of the next try, or null if the four hours leave no time for it. Exponential backoff with full jitter, which
 * `Retry-After` can only delay. The last try still ends within the four hours.
 */
export function nextTry({ tries, firstAt, now, notBefore, random }: RetryInput): number | null {
  const latest = firstAt + RETRY_WINDOW - ATTEMPT_TIMEOUT;
  if (now >= latest) return null;
  const dueAt = Math.max(now + backoff(tries, random), notBefore ?? 0);
  return Math.min(Math.ceil(dueAt), latest);
}

/** Full jitter: anything between nothing and the exponential step. */
export function backoff(tries: number, random: number, base = BACKOFF_BASE, cap = BACKOFF_CAP): number {
  return random * Math.min(cap, base * 2 ** Math.min(tries - 1, 30));
}

/**
 * The wait that a `Retry-After` header asks for (RFC 9110 section 10.2.3), in milliseconds, at most the four hours; null
 * if it is unusable. A date counts from the response's own `Date`, if it has one: then only the endpoint's clock decides.
 */
export function retryAfter(header: string | undefined, dateHeader: string | undefined, now: number): number | null {
  const value = header?.trim();
  if (!value) return null;
  if (/^\d+$/.test(value)) return Math.min(Number(value) * 1_000, RETRY_WINDOW);
  const date = httpDate(value);
  if (date === null) return null;
  return Math.max(0, Math.min(date - (httpDate(dateHeader?.trim() ?? '') ?? now), RETRY_WINDOW));
}

/** Date.parse accepts much that is no HTTP date, such as "-5" or "1.5", and the oldest form names no zone. */
function httpDate(value: string): number | null {
  if (!/^[A-Za-z]{3,9},? /.test(value)) return null;
  const date = Date.parse(value.endsWith('GMT') ? value : `${value} GMT`);
  return Number.isNaN(date) ? null : date;
}
