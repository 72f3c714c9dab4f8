import type { Readable } from 'node:stream';
import type { FastifyError, FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { Kind } from './bodies.ts';
import { systemClock } from './clock.ts';
import { type Core, createCore } from './core/core.ts';
import { createDeadlines, DEADLINE } from './core/deadlines.ts';
import { checkOptionNames } from './core/option-names.ts';
import { type Reply, refusal, tooLarge, unreadable } from './core/reply.ts';
import type { VerifiedFields } from './core/request.ts';
import { headerOf, type ReadDeadline, readBody } from './incoming.ts';
import type {
  AckOptions,
  CoreOptions,
  Handler,
  Handlers,
  ReceiverClock,
  RequestHead,
  VerifyOptions,
} from './options.ts';
import type { MessageOf } from './parse/messages.ts';
import { checkNumber } from './parse/numbers.ts';
import { parseMessage } from './parse/parse.ts';
import { nodeSignatures } from './verify/node-signatures.ts';
import { Verifier, type VerifyResult } from './verify/verifier.ts';

/** A verified request, as `request.webhook` in the plugins' scope. */
export interface Webhook {
  /** The bytes as received. */
  rawBody: Buffer;
  /** Index of the secret that matched; `undefined` if no secret is set. */
  secret: number | undefined;
  /** Identifies the request: all its repetitions have the same key. */
  key: string | undefined;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set in the scope of Rollcall's plugins, and only there, as soon as the body has been read. */
    webhook: Webhook;
  }
}

interface PathOption {
  /** Path of the route, within the prefix if there is one (default `/`). */
  path?: string;
}

export type ReceiverOptions = CoreOptions & PathOption;
type RestOfOptions = VerifyOptions & AckOptions & PathOption & { drain?: number };

/** Options of the plugins for one kind of message. */
export type KindOptions<K extends Kind> = RestOfOptions & { handler: Handler<MessageOf[K]>; error?: Handlers['error'] };

type DeadlineOptions = Pick<VerifyOptions, 'deadline' | 'clock'>;

const nothing = Buffer.alloc(0);

/** A request on its way through the plugins, in a single object to save allocations per request. */
class Arrival implements RequestHead, VerifiedFields, Webhook {
  rawBody: Buffer = nothing;
  secret: number | undefined;
  key: string | undefined;
  others: VerifiedFields['others'];
  sender = '';
  readonly since: number;
  readonly #request: FastifyRequest;

  constructor(request: FastifyRequest, since: number) {
    this.#request = request;
    this.since = since;
  }

  get url(): string {
    return this.#request.url;
  }

  header(name: string): string | undefined {
    return headerOf(this.#request.headers, name);
  }
}

const send = (reply: FastifyReply, { status, headers, body }: Reply) => reply.code(status).headers(headers).send(body);

/** Carries a refusal through the error handler. A host's own handler sees a normal error. */
class Refused extends Error {
  readonly code: string;
  readonly statusCode: number;
  readonly reply: Reply;

  constructor(reply: Reply, cause?: Error) {
    const { code, message } = JSON.parse(reply.body) as { code: string; message: string };
    super(message, { cause });
    this.code = code;
    this.statusCode = reply.status;
    this.reply = reply;
  }
}

/** Marks scopes whose raw bodies are kept. On a request it holds the plugins' private state. */
const marker = Symbol('rollcall.arrival');

interface Marked {
  [marker]: Arrival | null;
}

/** The arrival of a request. Its time starts at the first call. */
function arrivalOf(request: FastifyRequest, clock: Pick<ReceiverClock, 'now'>): Arrival {
  const marked = request as unknown as Marked;
  marked[marker] ??= new Arrival(request, clock.now());
  return marked[marker];
}

/** Keeps the body as received, if it arrives by the deadline. Replaces only the scope's own parsers. */
function keepRawBody(
  scope: FastifyInstance,
  bodyLimit: number,
  { deadline = DEADLINE, clock = systemClock }: DeadlineOptions,
) {
  if (scope.hasRequestDecorator(marker)) return;
  scope.decorateRequest(marker, null);
  if (!scope.hasRequestDecorator('webhook')) scope.decorateRequest('webhook', null as unknown as Webhook);
  const reads = createDeadlines(clock);
  scope.addHook('preClose', async () => reads.close());
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser('application/json', (request, payload, done) => {
    const arrival = arrivalOf(request, clock);
    const inTime: ReadDeadline = (cut) => reads.add(arrival.since + deadline, cut);
    readBody(payload as Readable, bodyLimit, inTime, (error, rawBody) => {
      if (rawBody === undefined) return done(new Refused(error === undefined ? tooLarge : unreadable(error), error));
      // Separate from request.body, which the host's hooks may replace.
      arrival.rawBody = rawBody;
      request.webhook = arrival;
      done(null, rawBody);
    });
  });
}

function verifyScope(scope: FastifyInstance, verifier: Verifier, options: DeadlineOptions): void {
  const { clock = systemClock } = options;
  keepRawBody(scope, verifier.bodyLimit, options);
  scope.addHook('onRequest', (request, reply, done) => {
    const refused = verifier.head(arrivalOf(request, clock), request.log);
    if (refused === undefined) done();
    else send(reply, refused);
  });
  // Not in the parser: it is not called for a request without content-type and body.
  scope.addHook('preValidation', (request, reply, done) => {
    const arrival = arrivalOf(request, clock);
    const finish = (result: VerifyResult) => {
      if (!result.ok) return void send(reply, result.reply);
      const { secret, key, others, sender } = result;
      arrival.secret = secret;
      arrival.key = key;
      arrival.others = others;
      arrival.sender = sender;
      request.webhook = arrival;
      done();
    };
    const result = verifier.body(arrival, arrival.rawBody, request.log);
    if (result instanceof Promise) result.then(finish, done);
    else finish(result);
  });
}

/** Answers errors here, since a host's error handler may turn a 4xx into a 500, which the sender repeats for hours. */
function answerError(error: FastifyError | Refused, request: FastifyRequest, reply: FastifyReply, core: Core): void {
  const { statusCode: status = 500, code = 'error' } = error;
  if (status >= 500) core.report(error.cause ?? error, { stage: 'host' }, request.log);
  if (error instanceof Refused) return void send(reply, error.reply);
  send(reply, refusal(status, code, status >= 500 ? 'internal error' : error.message));
}

const meta = (name: string) => ({ name: `@rollcall/receivers/${name}`, fastify: '5.x' });

/**
 * Verifies every request of the scope that it is registered in; `request.webhook` then holds the raw bytes.
 * Register it inside a scope of its own: all routes there, and no others, are verified.
 */
export const signature = fp<VerifyOptions>(async (scope, options) => {
  checkOptionNames(options);
  verifyScope(scope, new Verifier(options, nodeSignatures), options);
}, meta('signature'));

/** Options of `bodies`. */
export interface BodiesOptions {
  /** Largest body in bytes (default 1 MiB). If `signature` is registered before, its limit counts. */
  bodyLimit?: number;
}

/** Parses the bodies of the scope: `request.body` becomes a `Message`, or an `UnknownMessage`; 400 for anything else. */
export const bodies = fp<BodiesOptions>(async (scope, options) => {
  checkNumber('bodyLimit', options.bodyLimit);
  keepRawBody(scope, options.bodyLimit ?? 1024 * 1024, {});
  scope.addHook('preValidation', (request, reply, next) => {
    const parsed = parseMessage(request.webhook?.rawBody ?? nothing);
    if (!parsed.ok) return void send(reply, refusal(400, parsed.reason, parsed.detail));
    request.body = parsed.message;
    next();
  });
}, meta('bodies'));

const receive: FastifyPluginAsync<ReceiverOptions> = async (scope, options) => {
  const core = createCore(options, nodeSignatures);
  verifyScope(scope, core.verifier, options);
  scope.setErrorHandler<FastifyError>((error, request, reply) => answerError(error, request, reply, core));
  scope.addHook('onReady', () => core.resume(scope.log));
  scope.addHook('onClose', () => core.close());
  scope.post(options.path ?? '/', { bodyLimit: core.verifier.bodyLimit }, (request, reply) => {
    core.accept(arrivalOf(request, core), request.log, (answer) => {
      try {
        send(reply, answer);
      } catch (error) {
        core.report(error, { stage: 'host' }, request.log);
      }
    });
  });
};

/** A POST route in its own scope that verifies, parses and calls typed handlers. */
export const receiver = fp(receive, { ...meta('receiver'), encapsulate: true });

function only<K extends Kind>(kind: K): FastifyPluginAsync<KindOptions<K>> {
  const receiveOnly: FastifyPluginAsync<KindOptions<K>> = async (scope, { handler, error, ...options }) => {
    if (typeof handler !== 'function') throw new TypeError('handler is a function');
    const on = { [kind]: handler, ...(error && { error }) } as Handlers;
    await receive(scope, { ...options, on } as ReceiverOptions);
  };
  return fp(receiveOnly, { ...meta(kind), encapsulate: true });
}

/** A receiver for identify calls only. Other kinds are answered 200 and ignored. */
export const onIdentify = only('identify');
/** A receiver for track calls only. */
export const onTrack = only('track');
/** A receiver for page calls only. */
export const onPage = only('page');
/** A receiver for screen calls only. */
export const onScreen = only('screen');
/** A receiver for group calls only. */
export const onGroup = only('group');
/** A receiver for alias calls only. */
export const onAlias = only('alias');
/** A receiver for deletion notices only. */
export const onDelete = only('delete');
