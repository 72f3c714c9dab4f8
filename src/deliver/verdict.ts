import { BACKOFF_CAP, nextTry, RETRY_WINDOW } from '../kernel/retry.ts';
import type { Claim, EndpointMarks, Settlement, Verdict } from '../store/port.ts';
import { isUntrusted } from './endpoint/refusals.ts';
import type { Exchange } from './exchange.ts';

/** Why an endpoint was not posted to: it is closed, or the try was cut short by us (stop, reload, lease). */
export type SkipCause = 'dead' | 'refusing' | 'paused' | 'cut';

/**
 * Extent of an endpoint's refusals. `held`: everything, so the message waits. `in a row`: the previous messages too.
 * `single`: only this one, as far as known.
 */
export type Denial = 'held' | 'in a row' | 'single';

/** One try's result at one endpoint: an exchange and its start, or why there was none and when to retry. */
export type EndpointResult =
  | {
      readonly endpoint: string;
      readonly exchange: Exchange;
      readonly at: number;
      /** Null unless the refusal may apply to everything. */
      readonly denial: Denial | null;
    }
  | { readonly endpoint: string; readonly skipped: SkipCause; readonly until: number };

interface TryInput {
  readonly claim: Claim;
  readonly require: 'any' | 'all';
  /** Ids of the destination's currently configured endpoints. */
  readonly endpoints: readonly string[];
  readonly results: readonly EndpointResult[];
  readonly now: number;
  readonly random: number;
}

/** Decides the outcome of a delivery after a try (docs/delivery.md); nothing else does. */
export function judge({ claim, require, endpoints, results, now, random }: TryInput): Verdict {
  const marks = newMarks(claim.marks, results);
  const posted = results.flatMap((result) => ('exchange' in result ? [result.exchange] : []));
  const begun = results.flatMap((result) => ('exchange' in result ? [result.at] : []));
  const begunAt = Math.min(claim.firstAt ?? Math.min(...begun, now), now);
  const isCut = results.some((result) => 'skipped' in result && result.skipped === 'cut');
  if (posted.length === 0 && results.length > 0)
    return { kind: 'release', dueAt: isCut ? null : nextChance(claim, results, now) };
  if (succeeded(require, marks, endpoints)) {
    // The endpoint that was cut short still gets its first attempt.
    return isCut ? { kind: 'retry', dueAt: now, firstAt: begunAt, marks } : { kind: 'delivered' };
  }
  const denied = deniedBy(results);
  const isOver = (endpoint: string) => marks[endpoint] !== undefined || denied.get(endpoint) === 'in a row';
  if (endpoints.every(isOver)) {
    const others = Object.entries(marks).filter(([endpoint]) => !denied.has(endpoint));
    const again = denied.size > 0 ? { marks: Object.fromEntries(others) } : {};
    const status = lastStatus(posted.filter(({ outcome }) => outcome !== 'success'));
    return {
      kind: 'dead',
      reason: 'refused',
      status,
      firstAt: posted.length > 0 ? begunAt : null,
      ...again,
      answers: marks,
    };
  }
  const notBefore = now + Math.max(0, ...posted.map(({ retryAfter }) => retryAfter ?? 0));
  // The four hours of a deletion notice begin once the endpoint can be trusted.
  const firstAt = claim.type === 'delete' && posted.some(isUntrusted) ? now : begunAt;
  const dueAt = nextTry({ tries: claim.tries + 1, firstAt, now, notBefore, random });
  if (dueAt === null) return { kind: 'dead', reason: 'expired', status: lastStatus(posted), firstAt, answers: marks };
  return { kind: 'retry', dueAt, firstAt, marks };
}

/** The verdict for nearly all deliveries: the only endpoint tried accepted it, and any success will do. */
export function judgeTaken({ require, results }: Pick<TryInput, 'require' | 'results'>): Verdict | null {
  return require === 'any' && results.length === 1 && isTaken(results[0]) ? DELIVERED : null;
}

const DELIVERED: Verdict = { kind: 'delivered' };

function isTaken(result: EndpointResult | undefined): boolean {
  return result !== undefined && 'exchange' in result && result.exchange.outcome === 'success';
}

/** True if a delivery's four hours ended before it could be tried again. */
export function isExpired(claim: Claim, now: number): boolean {
  return claim.firstAt !== null && now >= claim.firstAt + RETRY_WINDOW;
}

function newMarks(before: EndpointMarks, results: readonly EndpointResult[]): EndpointMarks {
  const marks: Record<string, 'ok' | 'refused'> = { ...before };
  for (const result of results) {
    if (!('exchange' in result)) continue;
    const { outcome } = result.exchange;
    // The message is not to blame, or that is unknown: while it is tried elsewhere, it is tried here.
    if (result.denial === 'held' || result.denial === 'in a row') continue;
    if (outcome === 'success') marks[result.endpoint] = 'ok';
    else if (outcome !== 'retry') marks[result.endpoint] = 'refused';
  }
  return marks;
}

function deniedBy(results: readonly EndpointResult[]): ReadonlyMap<string, Denial> {
  const denied = new Map<string, Denial>();
  for (const result of results) {
    if ('exchange' in result && result.denial !== null) denied.set(result.endpoint, result.denial);
  }
  return denied;
}

/** The success of a removed endpoint still counts if any will do. */
function succeeded(require: 'any' | 'all', marks: EndpointMarks, endpoints: readonly string[]): boolean {
  if (require === 'any') return Object.values(marks).includes('ok');
  return endpoints.every((endpoint) => marks[endpoint] === 'ok');
}

function lastStatus(posted: readonly Exchange[]): number | null {
  return posted.findLast(({ status }) => status !== null)?.status ?? null;
}

/**
 * When to retry at a closed endpoint. The longer a delivery has waited, the less often: a backlog that waits for one
 * endpoint of several must not be claimed again with every probe.
 */
function nextChance({ firstAt }: Claim, results: readonly EndpointResult[], now: number): number {
  const until = Math.min(...results.map((result) => ('until' in result ? result.until : now)));
  const patience = firstAt === null ? 0 : Math.min(BACKOFF_CAP, Math.ceil((now - firstAt) / 4));
  const at = Math.max(until, now + Math.max(1_000, patience));
  // Only a notice that waits for a trusted endpoint is older.
  const end = firstAt === null ? now : firstAt + RETRY_WINDOW;
  return end > now ? Math.min(at, end) : at;
}

/** The settlement of an untried claim. @param dueAt - when it may be claimed again; null for at once */
export function released(claim: Claim, dueAt: number | null = null): Settlement {
  return { claim, verdict: { kind: 'release', dueAt }, attempts: [] };
}
