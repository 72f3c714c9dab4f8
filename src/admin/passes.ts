import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { AdminToken } from '../config/config.ts';
import type { Clock } from '../kernel/clock.ts';

/** Milliseconds for which a pass is valid: a browser's session, and the code of a sign-in link. */
export const PASS_LASTS = { session: 12 * 60 * 60 * 1_000, link: 10 * 60 * 1_000 };
type Purpose = keyof typeof PASS_LASTS;

/** A text that a token has signed. It is valid in every process that has the token, and needs no storage until it is spent. */
export interface Pass {
  readonly token: AdminToken;
  readonly endsAt: number;
  /** Stands for the pass once it is spent. */
  readonly hash: string;
}

export function issuePass(purpose: Purpose, token: AdminToken, clock: Pick<Clock, 'now' | 'token'>): string {
  const content = `${clock.now() + PASS_LASTS[purpose]}.${clock.token(16)}`;
  return `${content}.${sign(purpose, token, content).toString('base64url')}`;
}

/** Null if no token has signed it for this purpose, or if it has ended. */
export function readPass(purpose: Purpose, text: string, tokens: readonly AdminToken[], now: number): Pass | null {
  const place = text.lastIndexOf('.');
  const content = text.slice(0, Math.max(place, 0));
  const given = Buffer.from(text.slice(place + 1), 'base64url');
  // Compare with every token, so that the time does not reveal the position of a match.
  const token = tokens.filter((each) => isEqual(sign(purpose, each, content), given))[0];
  const endsAt = Number.parseInt(content, 10);
  if (!token || endsAt <= now) return null;
  return { token, endsAt, hash: createHash('sha256').update(`${purpose} ${content}`).digest('hex') };
}

/** Rights are signed too: a token with other rights ends its passes. */
function sign(purpose: Purpose, { token, may }: AdminToken, content: string): Buffer {
  return createHmac('sha256', token).update(`rollcall ${purpose} ${content} ${may.join()}`).digest();
}

function isEqual(expected: Buffer, given: Buffer): boolean {
  return expected.length === given.length && timingSafeEqual(expected, given);
}
