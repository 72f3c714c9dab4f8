import type { JsonObject, Kind, Reason } from './bodies.ts';
import type { Awaitable } from './core/after.ts';
import type { ComputedBody, Message, MessageOf, UnknownMessage } from './parse/messages.ts';
import type { Secret } from './signature.ts';
import type { Inbox, Opening, ReceiverStore } from './store.ts';

/** The head of a request; `header` takes lowercase names. */
export interface RequestHead {
  /** Path and query, if the edge knows them. */
  url: string;
  header(name: string): string | undefined;
}

/** `undefined` is an environment variable that is not set, for instance while an app is built: requests are answered 503. */
type Secrets = Secret | readonly (Secret | undefined)[] | undefined;

/**
 * One secret, several while they are rotated, or a function that finds them for a request (tenants).
 * The function returns `[]` for an unknown tenant (401), and throws or returns `undefined` if it has no secret now (503).
 */
export type SecretOption = Secrets | ((request: RequestHead) => Awaitable<Secrets>);

/** The request that brought a message, for its handler. */
export interface ReceivedRequest {
  /**
   * Aborts when the sender was asked to retry, when the receiver stops waiting at its close, and when the lease was lost,
   * so that another process may have begun the same work. Stop by `signal.throwIfAborted()`. A handler that has read the
   * signal and returns after it has aborted counts as failed.
   */
  readonly signal: AbortSignal;
  /** The bytes as received. */
  readonly rawBody: Buffer;
  readonly url: string;
  /** The same for every repetition of this request: its signature, or its Idempotency-Key if no secret is set. */
  readonly key: string | undefined;
  /** Index of the secret that matched; `undefined` if no secret is set. */
  readonly secret: number | undefined;
  /** The store's entry for this request, for a store's `transaction`; `undefined` if nothing identifies repetitions. */
  readonly opening: Opening | undefined;
}

export type Handler<M> = (message: M, request: ReceivedRequest) => unknown;

/** Reasons of the changes that reach the handlers. */
interface OnlySome {
  /**
   * `changes` is what happened just now: users who enter or have their first value, other values and columns, and users
   * who leave, except in a resync, backfill or rename. A list names the reasons. Others are answered 200.
   */
  only?: 'changes' | readonly Reason[];
}

/** Handlers for membership changes of one audience. */
export interface AudienceHandlers<Columns = JsonObject> extends OnlySome {
  entered?: Handler<ComputedBody<Columns>>;
  exited?: Handler<ComputedBody<Columns>>;
  /** A member has other columns (for audiences with `sends: any`). */
  changed?: Handler<ComputedBody<Columns>>;
}

/**
 * The audiences and traits of your configuration, and the events of your apps. `rollcall types` writes a declaration that
 * extends it, so that a handler for an unknown one does not compile.
 */
// biome-ignore lint/suspicious/noEmptyInterface: users extend it.
export interface Register {}

type Audiences = Register extends { audiences: infer Columns } ? Columns : Record<string, JsonObject>;
type Traits = Register extends { traits: infer Values } ? Values : Record<string, JsonObject>;
type Events = Register extends { events: infer Properties } ? Properties : Record<string, JsonObject>;

type ObjectMembers = typeof Object.prototype;

/** Any object has a `constructor`, which must be allowed even if it is no handler. */
type NamedLike<Key, H> = Key extends keyof ObjectMembers ? H | ObjectMembers[Key] : H;

/** Handlers for changes of one computed trait. */
export interface TraitHandlers<Values = JsonObject> extends OnlySome {
  /** `traits` has the new values, all columns of the trait. */
  changed?: Handler<Omit<ComputedBody, 'traits'> & { traits: Values }>;
  /** The user has no value any more: all of `traits` are null. */
  gone?: Handler<ComputedBody>;
}

/** The track call of one event. */
export type EventBody<Name = string, Properties = JsonObject> = Omit<MessageOf['track'], 'event' | 'properties'> & {
  event: Name;
  properties: Properties;
};

/** Handlers of track calls by the event's name, or `*` for all others. */
export type EventHandlers = {
  [Name in keyof Events]?: NamedLike<Name, Handler<EventBody<Name, Events[Name]>>>;
} & { '*'?: Handler<EventBody> };

/** Context of an error passed to `on.error`. */
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

/** Handlers by kind of message. The answer is 200 when they succeed and 500 when they fail. */
export type Handlers = { [K in Exclude<Kind, 'track'>]?: Handler<MessageOf[K]> } & {
  track?: Handler<MessageOf['track']> | EventHandlers;
  /** Handlers by the audience's key, or `*` for all others. These changes no longer go to `identify` and `track`. */
  audience?: { [Key in keyof Audiences]?: NamedLike<Key, AudienceHandlers<Audiences[Key]>> } & {
    '*'?: AudienceHandlers;
  };
  /** Handlers by the trait's key, or `*` for all others. These changes no longer go to `identify` and `track`. */
  trait?: { [Key in keyof Traits]?: NamedLike<Key, TraitHandlers<Traits[Key]>> } & { '*'?: TraitHandlers };
  /**
   * Wraps the handlers of every message, for spans, metrics and contexts. `next` runs the handlers, and rejects if they
   * fail.
   */
  around?: (message: Message | UnknownMessage, request: ReceivedRequest, next: () => Promise<void>) => unknown;
  /** Called first, for every message of a known kind that is not stale. */
  any?: Handler<Message>;
  /** Called for messages without another handler, including unknown kinds. The answer is 200. */
  unhandled?: Handler<Message | UnknownMessage>;
  /** Called for changes that `only` keeps from their handlers, to count them. The answer is 200. */
  keptAway?: Handler<ComputedBody>;
  /** Called for bodies that do not parse. The answer is then 200 instead of a 400, which loses the event. */
  invalid?: (invalid: Invalid, request: ReceivedRequest) => unknown;
  /** Called with every failure, including late ones. */
  error?: (error: unknown, failure: Failure) => unknown;
};

/** A structured log such as pino's and Fastify's. */
export interface Log {
  warn(fields: Record<string, unknown>, message: string): void;
  error(fields: Record<string, unknown>, message: string): void;
}

/** The clock, replaceable in tests. */
export interface ReceiverClock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Calls back after `ms`. The returned function cancels. A background timer does not keep the process alive. */
  after(ms: number, callback: () => void, options?: { readonly background?: boolean }): () => void;
}

export interface VerifyOptions {
  /** `false` accepts unsigned requests: for experiments, or if something else has verified them. */
  secret: SecretOption | false;
  /**
   * How requests are signed: by `X-Signature` (default), by Standard Webhooks, or by either while the sender migrates. With
   * 'both', a `webhook-signature` takes precedence.
   */
  signing?: 'x-signature' | 'standard' | 'both';
  /**
   * The most milliseconds between now and the time at which a request, or its batch, was signed. Others are refused. Needs
   * Standard Webhooks, as `X-Signature` covers no time of the request. Set it once the sender signs that way.
   */
  maxAge?: number;
  /** Largest body in bytes (default 1 MiB). */
  bodyLimit?: number;
  /**
   * On a mismatch, try the usual mistakes and log the one that fits (default: unless NODE_ENV is production). At most once
   * a second, and for bodies of up to 16 KiB, since the sender is not verified yet.
   */
  hints?: boolean;
  /** Milliseconds that a request may take, with its body, until the sender must retry (default 4500; it waits 5000). */
  deadline?: number;
  clock?: ReceiverClock;
}

/** Answer 200 as soon as the message is stored (`stored`), or once handlers are done (`handled`). */
// TypeScript's messages are about the last one.
export type AckOptions = { ack: 'stored'; store: Inbox } | { ack?: 'handled'; store?: ReceiverStore };

export type CoreOptions = VerifyOptions &
  AckOptions & {
    on: Handlers;
    /** Distinguishes receivers that share a store: each handles every message itself. */
    name?: string;
    /** Run handlers for what `rollcall test` sends of real users (`context.test`) too. */
    test?: boolean;
    /** Requests handled concurrently with `ack: 'stored'` (default 16). */
    concurrency?: number;
    /** Milliseconds after which a handler is given up, so that others get their turn (default 15 minutes). */
    stuckAfter?: number;
    /** Milliseconds that closing waits for handlers (default 10000). */
    drain?: number;
  };
