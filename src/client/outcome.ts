import type { ServiceAnswer } from './platform.ts';

/** A message that the service rejected from a batch that it accepted. */
export interface ServiceRejection {
  index: number;
  code: string | undefined;
  message: string;
}

/** The result of one try to send a batch. */
export type SendOutcome =
  | { kind: 'sent'; rejected: ServiceRejection[] }
  /** `retryAfter`: milliseconds that the service asked to wait. */
  | { kind: 'retry'; message: string; status?: number; retryAfter?: number }
  | { kind: 'refused'; message: string; status: number; code?: string };

/** The longest wait that the service can ask for, in milliseconds. */
const LONGEST_WAIT = 5 * 60_000;

/** Classifies by status: 2xx is sent; 408, 425, 429, 5xx and no answer are retried; all others are refused. */
export function classify(answer: ServiceAnswer, now: number): SendOutcome {
  if ('error' in answer) return { kind: 'retry', message: describe(answer.error) };
  const { status } = answer;
  const body = parse(answer.body);
  if (status >= 200 && status < 300) return { kind: 'sent', rejected: rejections(body) };
  // A browser shows status 0 for a redirect that it may not follow.
  const shown = status === 0 ? 'with a redirect' : status;
  const message = `the service answered ${shown}${typeof body['message'] === 'string' ? `: ${body['message']}` : ''}`;
  if (status >= 500 || status === 408 || status === 425 || status === 429) {
    const wait = retryAfter(answer.retryAfter, now);
    return { kind: 'retry', message, status, ...(wait === undefined ? {} : { retryAfter: wait }) };
  }
  return { kind: 'refused', message, status, ...(typeof body['code'] === 'string' ? { code: body['code'] } : {}) };
}

/** If a name has several addresses and none answers, the error has no message of its own. */
function describe(error: Error & { code?: unknown; errors?: unknown }): string {
  const { errors } = error;
  if (error.message === '' && Array.isArray(errors)) return errors.map((each) => describe(each)).join(', ');
  const why = error.cause instanceof Error ? describe(error.cause) : '';
  return [error.message || String(error.code ?? error.name), why].filter((part) => part !== '').join(': ');
}

function parse(body: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function rejections(body: Record<string, unknown>): ServiceRejection[] {
  const list = body['rejected'];
  if (!Array.isArray(list)) return [];
  const seen = new Map<number, ServiceRejection>();
  for (const item of list as ({ index?: unknown; code?: unknown; message?: unknown } | null)[]) {
    if (!Number.isInteger(item?.index)) continue;
    const index = item?.index as number;
    const code = typeof item?.code === 'string' ? item.code : undefined;
    seen.set(index, { index, code, message: typeof item?.message === 'string' ? item.message : 'rejected' });
  }
  return [...seen.values()];
}

/** Seconds or an HTTP date, as milliseconds from `now`. */
function retryAfter(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - now;
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), LONGEST_WAIT);
}
