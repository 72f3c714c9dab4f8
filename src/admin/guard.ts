import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { AdminToken, Right } from '../config/config.ts';
import { RollcallError } from '../kernel/errors.ts';
import type { BrowserSessions } from './session.ts';
import type { SignInLimit } from './sign-in-limit.ts';

/** An `onRequest` hook that throws for requests that may not pass. */
type Guard = (request: FastifyRequest) => Promise<void>;

/** A caller, by their name in the audit log. */
export interface Caller {
  readonly name: string;
  readonly may: readonly Right[];
}

const READING = new Set(['GET', 'HEAD']);

interface GuardOptions {
  readonly tokens: () => readonly AdminToken[];
  readonly session: BrowserSessions;
  readonly limit: SignInLimit;
  /** Throws while the service stops. It then still answers reads, but accepts no orders. */
  readonly ensureRunning?: () => void;
  /** Called with each request that passes, before its body is read. */
  readonly onAdmitted?: (request: FastifyRequest) => void;
}

/**
 * Guards admin routes: a request needs a token with the right, or the session of a browser that signed in with one. Its address
 * proves nothing, since a proxy on this machine lends its own to strangers.
 */
export class Gate {
  private readonly options: GuardOptions;
  private readonly callers = new WeakMap<FastifyRequest, Caller>();

  constructor(options: GuardOptions) {
    this.options = options;
  }

  /** The hook throws RollcallError `no_admin_token`, `unauthorized`, `forbidden`, `rate_limited`, `unsupported_media_type`, `stopping`. */
  guard(right: Right): Guard {
    return async (request) => {
      const caller = await this.identify(request);
      if (!caller.may.includes(right)) {
        throw new RollcallError('forbidden', `The token ${caller.name} may not ${right}: see admin.tokens.`);
      }
      if (!READING.has(request.method)) this.options.ensureRunning?.();
      this.callers.set(request, caller);
      this.options.onAdmitted?.(request);
    };
  }

  /** The caller of a request that has passed the guard. */
  caller(request: FastifyRequest): Caller {
    const caller = this.callers.get(request);
    if (!caller) throw new RollcallError('internal_error', 'The route has no guard.');
    return caller;
  }

  /**
   * Sign a browser in with a token, or with the code of a link.
   *
   * @throws RollcallError `no_admin_token`, `unauthorized`, `rate_limited`
   */
  async signIn(given: string, request: FastifyRequest): Promise<AdminToken> {
    const tokens = this.tokens();
    const { session, limit } = this.options;
    limit.check(request.ip);
    return (await session.redeem(given, tokens)) ?? this.bearer(given, request);
  }

  /** End the session of a browser. Resolves to the `Set-Cookie` header of the answer. */
  signOut(request: FastifyRequest): Promise<string> {
    return this.options.session.end(request, this.tokens());
  }

  /** @throws RollcallError `no_admin_token`, `unauthorized`, `forbidden`, `rate_limited`, `unsupported_media_type` */
  async identify(request: FastifyRequest): Promise<Caller> {
    const tokens = this.tokens();
    const { authorization } = request.headers;
    if (authorization === undefined) {
      const signedIn = await this.options.session.of(request, tokens);
      if (signedIn) {
        if (!READING.has(request.method)) checkOwnPage(request);
        return signedIn;
      }
    }
    const given = /^bearer +(\S+) *$/i.exec(authorization ?? '')?.[1];
    if (given === undefined) {
      throw new RollcallError('unauthorized', 'Send an admin token: `Authorization: Bearer …`.');
    }
    return this.bearer(given, request);
  }

  private bearer(given: string, request: FastifyRequest): AdminToken {
    const { limit } = this.options;
    limit.check(request.ip);
    const digest = digestOf(given);
    // Compare with every token, so that the time does not reveal the position of a match.
    const found = this.tokens().filter(({ token }) => timingSafeEqual(digestOf(token), digest))[0];
    if (found) return found;
    limit.failed(request.ip);
    throw new RollcallError('unauthorized', 'The admin token is wrong.');
  }

  private tokens(): readonly AdminToken[] {
    const tokens = this.options.tokens();
    if (tokens.length === 0)
      throw new RollcallError('no_admin_token', 'The service has no admin token: its log says what to set.');
    return tokens;
  }
}

/** A digest, since `timingSafeEqual` needs equal lengths. */
function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/** A browser sends its session along with requests of any page. Only our own pages have our origin. */
function checkOwnPage({ headers, host }: FastifyRequest): void {
  const { origin } = headers;
  if (origin === undefined || URL.parse(origin)?.host !== host) refuse('Pages of other sites are not served.');
  checkJson(headers);
}

/** Any page may post a form or text. For JSON a browser sends a preflight first. */
function checkJson(headers: FastifyRequest['headers']): void {
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
  if (hasBody && !/^application\/json *(;|$)/i.test(headers['content-type'] ?? '')) {
    throw new RollcallError('unsupported_media_type', 'The body must be application/json.');
  }
}

function refuse(reason: string): never {
  throw new RollcallError('forbidden', reason);
}
