import type { FastifyRequest } from 'fastify';
import type { AdminToken } from '../config/config.ts';
import type { Clock } from '../kernel/clock.ts';
import { RollcallError } from '../kernel/errors.ts';
import type { Records } from '../store/port.ts';
import { issuePass, PASS_LASTS, type Pass, readPass } from './passes.ts';

const COOKIE = 'rollcall_session';

/** Sessions of signed-in browsers, and the codes of links that start one. The store remembers only the spent ones. */
export class BrowserSessions {
  private readonly clock: Pick<Clock, 'now' | 'token'>;
  private readonly store: Pick<Records, 'spendPass' | 'isSpent'>;

  constructor(clock: Pick<Clock, 'now' | 'token'>, store: Pick<Records, 'spendPass' | 'isSpent'>) {
    this.clock = clock;
    this.store = store;
  }

  async of(request: FastifyRequest, tokens: readonly AdminToken[]): Promise<AdminToken | null> {
    const pass = this.passOf(request, tokens);
    return pass === null || (await this.store.isSpent(pass.hash)) ? null : pass.token;
  }

  /** The `Set-Cookie` header of a browser that has shown this token. */
  start(token: AdminToken, request: FastifyRequest): string {
    return cookie(issuePass('session', token, this.clock), PASS_LASTS.session / 1_000, request);
  }

  /**
   * End the session in every process.
   *
   * @returns the `Set-Cookie` header that removes the cookie
   */
  async end(request: FastifyRequest, tokens: readonly AdminToken[]): Promise<string> {
    const pass = this.passOf(request, tokens);
    if (pass !== null && !(await this.spend(pass)) && !(await this.store.isSpent(pass.hash)))
      throw new RollcallError('overloaded', 'Too many sessions were ended. Change the token, or wait for some hours.');
    return cookie('', 0, request);
  }

  /** The token that signed the code of a sign-in link, which this uses up. Null if the code is not or no longer valid. */
  async redeem(code: string, tokens: readonly AdminToken[]): Promise<AdminToken | null> {
    const pass = readPass('link', code, tokens, this.clock.now());
    return pass !== null && (await this.spend(pass)) ? pass.token : null;
  }

  private spend({ hash, endsAt }: Pass): Promise<boolean> {
    return this.store.spendPass(hash, endsAt, this.clock.now());
  }

  private passOf({ headers }: FastifyRequest, tokens: readonly AdminToken[]): Pass | null {
    const value = cookiesOf(headers.cookie).find(([name]) => name === COOKIE)?.[1];
    return value === undefined ? null : readPass('session', value, tokens, this.clock.now());
  }
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
