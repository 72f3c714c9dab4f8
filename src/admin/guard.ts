import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';
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

/** The caller if no tokens are configured. */
const LOCAL: Caller = { name: 'local', may: ['read', 'operate', 'delete'] };

/** Headers set by proxies, behind which the peer's address is not the client's. */
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'via'];
const READING = new Set(['GET', 'HEAD']);

interface GuardOptions {
  readonly tokens: () => readonly AdminToken[];
  /** Sessions of signed-in browsers. Without it only tokens count. */
  readonly session?: BrowserSessions;
  readonly limit?: SignInLimit;
  /** Throws while the service stops. It then still answers reads, but accepts no orders. */
  readonly ensureRunning?: () => void;
  /** Called with each request that passes, before its body is read. */
  readonly onAdmitted?: (request: FastifyRequest) => void;
}

/**
 * Guards admin routes. If tokens are configured, a request needs one with the right, or the session of a browser that signed
 * in with it. Otherwise only programs and pages of this machine are served: not through a proxy, and not for another site's
 * page in a local browser.
 */
export class Gate {
  private readonly options: GuardOptions;
  private readonly callers = new WeakMap<FastifyRequest, Caller>();

  constructor(options: GuardOptions) {
    this.options = options;
  }

  /** The hook throws RollcallError `unauthorized`, `forbidden`, `rate_limited`, `unsupported_media_type`, `stopping`. */
  guard(right: Right): Guard {
    return async (request) => {
      const caller = this.identify(request);
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
    return this.callers.get(request) ?? LOCAL;
  }

  get needsToken(): boolean {
    return this.options.tokens().length > 0;
  }

  /**
   * The bearer of a token.
   *
   * @throws RollcallError `unauthorized`, `rate_limited`
   */
  bearer(given: string, request: FastifyRequest): AdminToken {
    const { tokens, limit } = this.options;
    limit?.check(request.ip);
    const digest = digestOf(given);
    // Compare with every token, so that the time does not reveal the position of a match.
    const found = tokens().filter(({ token }) => timingSafeEqual(digestOf(token), digest))[0];
    if (found) return found;
    limit?.failed(request.ip);
    throw new RollcallError('unauthorized', 'The admin token is wrong.');
  }

  /** @throws RollcallError `unauthorized`, `forbidden`, `rate_limited`, `unsupported_media_type` */
  identify(request: FastifyRequest): Caller {
    const { tokens, session } = this.options;
    if (tokens().length === 0) {
      checkLocal(request);
      return LOCAL;
    }
    const { authorization } = request.headers;
    if (authorization === undefined) {
      const signedIn = session?.of(request, tokens());
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
}

/** A digest, since `timingSafeEqual` needs equal lengths. */
function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

function checkLocal({ socket, headers }: FastifyRequest): void {
  const { host, origin } = headers;
  if (!isLoopback(socket.remoteAddress ?? '')) refuse('Without an admin token only this machine is served.');
  if (FORWARDED.some((name) => headers[name] !== undefined)) refuse('Without an admin token no proxy is served.');
  if (!isLoopback(URL.parse(`http://${host}`)?.hostname ?? '')) refuse('Host must be localhost or a loopback address.');
  if (origin !== undefined && URL.parse(origin)?.host !== host) refuse('Pages of other sites are not served.');
  if (isEmbedded(headers)) refuse('Pages of other sites are not served.');
  checkJson(headers);
}

/** True if another site's page embeds this. It could not read the answer, but would run a query. Its links may lead here. */
function isEmbedded(headers: FastifyRequest['headers']): boolean {
  const site = headers['sec-fetch-site'] ?? 'none';
  return site !== 'none' && site !== 'same-origin' && headers['sec-fetch-dest'] !== 'document';
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

function isLoopback(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, '');
  return name === 'localhost' || (ipaddr.isValid(name) && ipaddr.process(name).range() === 'loopback');
}
