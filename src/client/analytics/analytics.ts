import { callHost } from '../call-host.ts';
import { BaseClient } from '../client.ts';
import type { Clock } from '../clock.ts';
import { ClientError, textOf } from '../errors.ts';
import type { Follower } from '../follower.ts';
import type { LossFacts } from '../ledger.ts';
import {
  type AliasMessage,
  type AnyEvents,
  type AnyMessage,
  check,
  type GroupMessage,
  type IdentifyMessage,
  type Kind,
  type PageMessage,
  plain,
  type TrackMessage,
} from '../message.ts';
import type { Body, Platform, Transport } from '../platform.ts';
import { version } from '../version.ts';
import { Context, DeliveryError, type Event } from './context.ts';
import { Emitter } from './emitter.ts';
import { type Plugin, Plugins } from './plugins.ts';
import { type AnalyticsSettings, clientOptions, renamed } from './settings.ts';

/** Called once the message has arrived, or never will: then with the reason. */
export type Callback = (error?: unknown, context?: Context) => void;

export type IdentifyParams = IdentifyMessage & { previousId?: string | undefined };
export type TrackParams<Events extends object = AnyEvents> = TrackMessage<Events>;
export type PageParams = PageMessage;
export type GroupParams = GroupMessage;
export type AliasParams = AliasMessage;

/** How long to wait, and whether to end. */
export interface FlushParams {
  /** Milliseconds. Default: 75,000, or 1.25 times a longer `flushInterval`. */
  timeout?: number | undefined;
  /** Take no more calls. */
  close?: boolean | undefined;
}

/** The arguments of each event's listeners. */
export type AnalyticsEvents = Record<Kind, [context: Context]> & {
  error: [error: { code: string; reason: unknown; ctx?: Context }];
  http_request: [request: { url: string; method: string; headers: Record<string, string>; body: string }];
  http_response: [response: { url: string; status: number; headers: Record<string, unknown>; body: string }];
  call_after_close: [event: Event];
  register: [names: string[]];
  deregister: [names: string[]];
  drained: [];
};

/** A message that is queued. */
interface Pending {
  kind: Kind;
  context: Context;
  callback: Callback | undefined;
}

/** Milliseconds between two looks at what plugins have handed on while a flush waits. */
const LOOK_EVERY = 25;

/** Codes of mistakes in the values, not in the call: these are reported later, not thrown. */
const TOLD = new Set<unknown>(['too_large', 'invalid_message', 'invalid_timestamp']);

/** The calls of `@segment/analytics-node` over our client; see `Analytics`. */
export class BaseAnalytics<Events extends object = AnyEvents> extends Emitter<AnalyticsEvents> {
  /** Resolves once the client is ready, which it is. */
  readonly ready: Promise<void>;
  readonly #client: BaseClient<Events>;
  readonly #platform: Platform;
  readonly #clock: Clock;
  readonly #plugins: Plugins<this>;
  readonly #settings: AnalyticsSettings;
  /** Milliseconds that a flush waits unless the call says otherwise. */
  readonly #flushTimeout: number;
  /** Queued messages in the order of their calls, as the client settles them. */
  #pending: Pending[] = [];
  /** Those of them with a callback. */
  #awaited = 0;
  /** Messages with plugins, or whose callback comes in the next turn. */
  #underWay = new Set<Promise<void>>();
  /** Messages that plugins have not handed on. */
  #withPlugins = 0;
  /** Of the call that is being made. */
  #callback: Callback | undefined;
  #isClosed = false;

  /** @internal */
  constructor(settings: AnalyticsSettings, platform: Platform) {
    super((why) => platform.warn(`a callback or listener threw: ${why}`));
    const options = clientOptions(settings);
    this.#settings = settings;
    this.#platform = platform;
    this.#clock = settings.clock ?? platform.clock;
    this.#plugins = new Plugins<this>(this, platform.warn);
    this.#flushTimeout = options.closeTimeout as number;
    try {
      this.#client = new BaseClient<Events>(settings.writeKey, options, platform, this.#follower());
    } catch (error) {
      throw renamed(error);
    }
    if (settings.maxRateLimitDuration !== undefined) platform.warn('maxRateLimitDuration has no effect here.');
    this.ready = Promise.resolve().then(() => {
      this.emit('register', ['Rollcall']);
    });
    // Taken out of the object, as in `const { track } = analytics`, they work as well.
    this.identify = this.identify.bind(this);
    this.track = this.track.bind(this);
    this.page = this.page.bind(this);
    this.screen = this.screen.bind(this);
    this.group = this.group.bind(this);
    this.alias = this.alias.bind(this);
    this.flush = this.flush.bind(this);
    this.closeAndFlush = this.closeAndFlush.bind(this);
    this.register = this.register.bind(this);
    this.deregister = this.deregister.bind(this);
  }

  /** Version of this package. */
  get VERSION(): string {
    return version;
  }

  /** Ties a user to traits. */
  identify(message: IdentifyParams, callback?: Callback): void {
    this.#dispatch('identify', message, callback);
  }

  /** Records what a user did. */
  track(message: TrackParams<Events>, callback?: Callback): void {
    this.#dispatch('track', message as AnyMessage, callback);
  }

  /** Records a page view. A `category` goes into the properties too. */
  page(message: PageParams, callback?: Callback): void {
    const { category, properties } = message;
    const given = category == null ? message : { ...message, properties: { ...plain(properties), category } };
    this.#dispatch('page', given, callback);
  }

  /** Records a screen view. */
  screen(message: PageParams, callback?: Callback): void {
    this.#dispatch('screen', message, callback);
  }

  /** Ties a user to a group. */
  group(message: GroupParams, callback?: Callback): void {
    this.#dispatch('group', message, callback);
  }

  /** Says that `previousId` is the user `userId`. */
  alias(message: AliasParams, callback?: Callback): void {
    this.#dispatch('alias', message, callback);
  }

  /** Sends what is queued, and waits until all callbacks are called or the time is over. */
  async flush({ timeout = this.#flushTimeout, close = false }: FlushParams = {}): Promise<void> {
    const clock = this.#clock;
    const end = clock.now() + timeout;
    const left = () => Math.max(0, end - clock.now());
    if (close) this.#isClosed = true;
    // What plugins have handed on does not wait for those that are slow, or never end.
    while (this.#withPlugins > 0 && left() > 0) {
      await this.#prepared(Math.min(LOOK_EVERY, left()));
      await this.#client.flush({ timeout: left() });
    }
    await (close ? this.#client.close({ timeout: left() }) : this.#client.flush({ timeout: left() }));
    await this.#prepared(left());
    if (close && this.#withPlugins > 0)
      this.#platform.warn(`messages that plugins have not handed on in time are dropped: ${this.#withPlugins}.`);
  }

  /** As `flush`, and ends: messages not sent in time are given up and reported. Later calls are `call_after_close`. */
  closeAndFlush({ timeout }: { timeout?: number | undefined } = {}): Promise<void> {
    return this.flush({ timeout, close: true });
  }

  /** Adds plugins that see every message before it is queued. */
  register(...plugins: Plugin<this>[]): Promise<void> {
    const names = plugins.map(({ name }) => name);
    return this.#changed('register', names, this.#plugins.add(plugins));
  }

  /** Takes plugins out by their names. */
  deregister(...names: string[]): Promise<void> {
    return this.#changed('deregister', names, this.#plugins.remove(names));
  }

  /** An app need not wait for plugins: one that fails is told, and does not end the process. */
  #changed(how: 'register' | 'deregister', names: string[], change: Promise<void>): Promise<void> {
    const changed = change.then(() => void this.emit(how, names));
    changed.catch((error) => this.#platform.warn(`${how} of ${names.join(', ')} failed: ${textOf(error)}`));
    return changed;
  }

  #dispatch(kind: Kind, message: AnyMessage, callback: Callback | undefined): void {
    if (this.#isClosed) return void this.#afterClose(kind, message);
    try {
      if (this.#plugins.isEmpty) this.#enqueue(kind, message, callback);
      else this.#prepare(kind, message, callback);
    } catch (error) {
      this.#refuse(kind, message, error, callback);
    }
  }

  /** Runs plugins, which can't make a wrong call a right one. */
  #prepare(kind: Kind, message: AnyMessage, callback: Callback | undefined): void {
    check(kind, message);
    const context = new Context(this.#event(kind, message));
    const codeOf = (reason: unknown) => (reason instanceof ClientError ? 'delivery_failure' : 'unknown');
    this.#withPlugins += 1;
    const handedOn = this.#plugins
      .run(kind, context)
      .then(({ event }) => this.#enqueue(kind, event as AnyMessage, callback))
      .finally(() => {
        this.#withPlugins -= 1;
      });
    this.#own(handedOn.catch((reason) => this.#fail(codeOf(reason), reason, context, callback)));
  }

  #enqueue(kind: Kind, message: AnyMessage, callback: Callback | undefined): void {
    this.#callback = callback;
    try {
      (this.#client[kind] as (message: AnyMessage) => boolean)(message);
    } finally {
      this.#callback = undefined;
    }
  }

  /** Reports mistakes in the values later, and throws those in the call. */
  #refuse(kind: Kind, message: AnyMessage, error: unknown, callback: Callback | undefined): void {
    if (!(error instanceof ClientError) || !TOLD.has(error.code)) throw error;
    const context = new Context(this.#event(kind, message));
    this.#own(Promise.resolve().then(() => this.#fail('delivery_failure', error, context, callback)));
  }

  /** A message that is not written as text yet, or never will be. */
  #event(kind: Kind, message: AnyMessage): Event {
    const messageId = message.messageId ?? this.#clock.uuid();
    const timestamp = message.timestamp ?? new Date(this.#clock.now());
    return { ...message, type: kind, messageId, timestamp };
  }

  #afterClose(kind: Kind, message: AnyMessage): void {
    const { onLoss } = this.#settings;
    const event = this.#event(kind, message);
    const loss: LossFacts = { outcome: 'dropped', reason: 'closed', count: 1, message: 'the client is closed' };
    if (onLoss) this.#tell(() => onLoss({ ...loss, messages: [event] }));
    else if (!this.hears('call_after_close')) this.#platform.warn(`a ${kind} after closeAndFlush() is dropped.`);
    this.emit('call_after_close', event);
  }

  /** Waits for plugins and callbacks, for `timeout` at most. */
  async #prepared(timeout: number): Promise<void> {
    if (this.#underWay.size === 0) return;
    let cancel = () => {};
    const over = new Promise<void>((resolve) => {
      cancel = this.#clock.after(timeout, resolve, true);
    });
    await Promise.race([Promise.all(this.#underWay), over]);
    cancel();
  }

  #own(work: Promise<void>): void {
    const done = work.finally(() => {
      this.#underWay.delete(done);
      this.#drained();
    });
    this.#underWay.add(done);
  }

  #follower(): Follower {
    return {
      observe: (transport, url) => (this.#settings.disable ? transport : this.#observe(transport, url)),
      queued: (kind, text) => {
        this.#pending.push({ kind, context: new Context(text), callback: this.#callback });
        if (this.#callback) this.#awaited += 1;
      },
      dropped: (_, text, loss) => {
        const callback = this.#callback;
        const settle = () => this.#fail('delivery_failure', new DeliveryError(loss), new Context(text), callback);
        this.#own(Promise.resolve().then(settle));
      },
      settled: (count, lossOf) => {
        for (const [index, each] of this.#pending.splice(0, count).entries()) this.#settle(each, lossOf(index));
        this.#drained();
      },
      onLoss: () => (this.hears('error') ? () => {} : undefined),
    };
  }

  #settle({ kind, context, callback }: Pending, loss: LossFacts | undefined): void {
    if (callback) this.#awaited -= 1;
    if (loss) this.#fail('delivery_failure', new DeliveryError(loss), context, callback);
    else {
      if (callback) this.#tell(() => callback(undefined, context));
      if (this.hears(kind)) this.emit(kind, context);
    }
  }

  #fail(code: string, reason: unknown, context: Context, callback: Callback | undefined): void {
    context.setFailedDelivery({ reason });
    if (callback) this.#tell(() => callback(reason, context));
    if (this.hears('error')) this.emit('error', { code, reason, ctx: context });
    else if (!(reason instanceof DeliveryError) && !callback) this.#platform.warn(`a message is dropped: ${reason}`);
  }

  #drained(): void {
    if (this.#pending.length === 0 && this.#underWay.size === 0) this.emit('drained');
  }

  #observe(transport: Transport, url: string): Transport {
    return {
      post: async (body) => {
        const request = { url, method: 'POST', headers: { 'content-type': 'application/json' } };
        if (this.hears('http_request')) this.emit('http_request', { ...request, body: text(body) });
        const answer = await this.#held(() => transport.post(body));
        if ('status' in answer && this.hears('http_response')) {
          const { status, headers = {}, body } = answer;
          this.emit('http_response', { url, status, headers, body });
        }
        return answer;
      },
      close: () => transport.close(),
    };
  }

  /** Keeps the process while a callback waits: with nothing else to do, a function would be ended before the answer. */
  async #held<T>(work: () => Promise<T>): Promise<T> {
    if (this.#awaited === 0) return work();
    const letGo = this.#clock.after(this.#flushTimeout, () => {}, true);
    try {
      return await work();
    } finally {
      letGo();
    }
  }

  /** Calls what is the host's, whose errors must not stop the client. */
  #tell(call: () => unknown): void {
    callHost(call, (why) => this.#platform.warn(`a callback or listener threw: ${why}`));
  }
}

const text = (body: Body): string => (typeof body === 'string' ? body : new TextDecoder().decode(body));
