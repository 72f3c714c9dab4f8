import type { JsonObject, Kind } from './bodies.ts';
import type { Awaitable } from './core/after.ts';
import type { Message, MessageOf, UnknownMessage } from './parse/messages.ts';
import type { Secret } from './signature.ts';
import type { Inbox, Opening, ReceiverStore } from './store.ts';

/** The head of a request; `header` takes lowercase names. */
export interface RequestHead {
  /** Path and query, as far as the edge knows them. */
  url: string;
  header(name: string): string | undefined;
}

/**
 * One secret, several while they are rotated, or a function that finds them for a request (tenants).
 * The function returns `undefined` for an unknown tenant (401) and throws when it can't tell (503).
 */
export type SecretOption =
  | Secret
  | readonly Secret[]
  | ((request: RequestHead) => Awaitable<Secret | readonly Secret[] | undefined>);

/** The request that brought a message, for its handler. */
export interface ReceivedRequest {
  /**
   * Aborts when the sender was asked to come again, and when the receiver stops waiting at its close. Also when the
   * lease was lost, so that another process may have begun the same work.
   */
  readonly signal: AbortSignal;
  /** The bytes as received. */
  readonly rawBody: Buffer;
  readonly url: string;
  /** The same for every repetition of this request: its signature, or its Idempotency-Key where no secret is set. */
  readonly key: string | undefined;
  /** Place of the secret that matched; `undefined` where no secret is set. */
  readonly secret: number | undefined;
  /** The store's name for this request; `undefined` where nothing tells repetitions apart. For a store's `transaction`. */
  readonly opening: Opening | undefined;
}

export type Handler<M> = (message: M, request: ReceivedRequest) => unknown;

/** The identify call of an audience or computed trait, which always names its user. */
export type ComputedBody = MessageOf['identify'] & { userId: string };

/** Takes the membership changes of one audience. */
export interface AudienceHandlers {
  entered?: Handler<ComputedBody>;
  exited?: Handler<ComputedBody>;
}

/**
 * The audiences and traits of your configuration: `rollcall types` writes a declaration that extends it. With that, a
 * handler for another one does not compile.
 */
// biome-ignore lint/suspicious/noEmptyInterface: it is there to be extended.
export interface Register {}

type AudienceKey = Register extends { audiences: infer Key extends string } ? Key : string;
type Traits = Register extends { traits: infer Values } ? Values : Record<string, JsonObject>;

type ObjectMembers = typeof Object.prototype;

/** Any object has a `constructor`: without a handler of that name it must fit too. */
type NamedLike<Key, H> = Key extends keyof ObjectMembers ? H | ObjectMembers[Key] : H;

/** Takes the changes of one computed trait. */
export interface TraitHandlers<Values = JsonObject> {
  /** `traits` has the new values, all columns of the trait. */
  changed?: Handler<Omit<ComputedBody, 'traits'> & { traits: Values }>;
  /** The user has no value any more: all of `traits` are null. */
  gone?: Handler<ComputedBody>;
}

/** A failure that `on.error` gets. */
export interface Failure {
  /** `host`: the app around the receiver took the body, the answer or the connection. */
  stage: 'secret' | 'store' | 'handler' | 'invalid' | 'host';
  /** The sender no longer waits for the answer. */
  late: boolean;
  /** With `ack: 'stored'`: no further try will be made. */
  gaveUp: boolean;
  message?: Message | UnknownMessage | undefined;
  request?: ReceivedRequest | undefined;
}

/** A verified request whose body is not one of the seven messages. */
export interface Invalid {
  reason: string;
  detail: string;
}

/** Handlers by kind of message. The answer is 200 when they are done and 500 when they fail. */
export type Handlers = { [K in Kind]?: Handler<MessageOf[K]> } & {
  /** By the audience's key, or `*` for those not named. Takes membership changes away from `identify`. */
  audience?: { [Key in AudienceKey | '*']?: NamedLike<Key, AudienceHandlers> };
  /** By the trait's key, or `*` for those not named. Takes changes of computed traits away from `identify`. */
  trait?: { [Key in keyof Traits]?: NamedLike<Key, TraitHandlers<Traits[Key]>> } & { '*'?: TraitHandlers };
  /**
   * Called in place of the handlers, which `next` runs, for every message that reaches them: for spans, measures and
   * contexts. What `next` rejects with is the handlers' failure.
   */
  around?: (message: Message | UnknownMessage, request: ReceivedRequest, next: () => Promise<void>) => unknown;
  /** Called first, for every message of a known kind that is not out of date. */
  any?: Handler<Message>;
  /** Called for what nothing else takes, kinds of the future included. The answer is 200. */
  unhandled?: Handler<Message | UnknownMessage>;
  /** Keeps what does not parse; then the answer is 200 instead of a 400, which loses the event. */
  invalid?: (invalid: Invalid, request: ReceivedRequest) => unknown;
  /** Called with every failure, late ones too. */
  error?: (error: unknown, failure: Failure) => unknown;
};

/** Structured log, as pino and Fastify have it. */
export interface Log {
  warn(fields: Record<string, unknown>, message: string): void;
  error(fields: Record<string, unknown>, message: string): void;
}

/** Time, to be replaced in tests. */
export interface ReceiverClock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Calls back after `ms`; the returned function cancels. In the background it does not keep the process alive. */
  after(ms: number, callback: () => void, options?: { readonly background?: boolean }): () => void;
}

export interface VerifyOptions {
  /** `false` takes unsigned requests: for trying things out, or where something else has verified them. */
  secret: SecretOption | false;
  /**
   * How requests are signed: by the header `X-Signature` (default), by those of Standard Webhooks, or by either while
   * the sender moves over. Then a request with a `webhook-signature` is judged by it.
   */
  signing?: 'x-signature' | 'standard' | 'both';
  /**
   * Milliseconds since a request, or its batch, was signed, or until it will have been, beyond which it is refused. Needs
   * Standard Webhooks: `X-Signature` covers no time of the request. Set it once the sender signs so.
   */
  maxAge?: number;
  /** Largest body in bytes (default 1 MiB). */
  bodyLimit?: number;
  /**
   * Try the usual mistakes on a mismatch and name the one that fits in the log (default: unless NODE_ENV is production).
   * At most once a second, and for bodies of up to 16 KiB: whoever sends them is not known yet.
   */
  hints?: boolean;
  /** Milliseconds that a request may take, its body included, until the sender has to come again (default 4500; it waits 5000). */
  deadline?: number;
  clock?: ReceiverClock;
}

/** When the sender hears 200: once handlers are done, or as soon as the message is stored. */
export type AckOptions = { ack?: 'handled'; store?: ReceiverStore } | { ack: 'stored'; store: Inbox };

export type CoreOptions = VerifyOptions &
  AckOptions & {
    on: Handlers;
    /** Tells receivers apart that share a store: what one has handled says nothing about another. */
    name?: string;
    /** Requests that are handled at once with `ack: 'stored'` (default 16). */
    concurrency?: number;
    /** Milliseconds after which a handler is taken to never return, and others get their turn (default 15 minutes). */
    stuckAfter?: number;
    /** Milliseconds that closing waits for handlers (default 10000). */
    drain?: number;
  };
