import { createHmac, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { AdminToken } from '../config/config.ts';
import type { Clock } from '../kernel/clock.ts';

const COOKIE = 'rollcall_session';
/** Milliseconds for which a browser stays signed in. */
const LASTS = 12 * 60 * 60 * 1_000;

/**
 * Sessions of signed-in browsers. The cookie has the token's name and its own expiry, and is signed with the token. Nothing
 * is stored, so it is valid in every process and after a restart, until the token is changed or removed.
 */
export class BrowserSessions {
  private readonly clock: Pick<Clock, 'now'>;

  constructor(clock: Pick<Clock, 'now'>) {
    this.clock = clock;
  }

  of({ headers }: FastifyRequest, tokens: readonly AdminToken[]): AdminToken | null {
    const value = cookiesOf(headers.cookie).find(([name]) => name === COOKIE)?.[1];
    const [name = '', until = '', signature = ''] = value?.split('.') ?? [];
    const token = tokens.find((each) => nameOf(each) === name);
    if (!token || !(Number(until) > this.clock.now())) return null;
    const [given, expected] = [Buffer.from(signature, 'base64url'), sign(token, until)];
    return given.length === expected.length && timingSafeEqual(given, expected) ? token : null;
  }

  /** The `Set-Cookie` header of a browser that has shown this token. */
  start(token: AdminToken, request: FastifyRequest): string {
    const until = String(this.clock.now() + LASTS);
    const value = `${nameOf(token)}.${until}.${sign(token, until).toString('base64url')}`;
    return cookie(value, LASTS / 1_000, request);
  }

  /** The `Set-Cookie` header that removes the cookie. */
  end(request: FastifyRequest): string {
    return cookie('', 0, request);
  }
}

const nameOf = ({ name }: AdminToken) => Buffer.from(name).toString('base64url');

function sign({ token, may }: AdminToken, until: string): Buffer {
  return createHmac('sha256', token).update(`rollcall session ${until} ${may.join()}`).digest();
}

function cookie(value: string, maxAge: number, { protocol }: FastifyRequest): string {
  const secure = protocol === 'https' ? '; Secure' : '';
  return `${COOKIE}=${value}; Path=/; Max-Age=${maxAge}; HttpOnly; SameSite=Strict${secure}`;
}

function cookiesOf(header = ''): readonly (readonly [string, string])[] {
  return header.split(';').map((part) => {
    const place = part.indexOf('=');
    return [part.slice(0, place).trim(), part.slice(place + 1).trim()] as const;
  });
}
