/// <reference lib="esnext.disposable" preserve="true" />
import { ClientError, textOf } from './errors.ts';
import { FetchTransport } from './fetch.ts';
import { Ledger, type LossFacts, type LossReason, type Report } from './ledger.ts';
import {
  type AliasMessage,
  type AnyEvents,
  type AnyMessage,
  type GroupMessage,
  type IdentifyMessage,
  type MessageKind,
  type PageMessage,
  type ScreenMessage,
  serialize,
  type Tools,
  type TrackMessage,
} from './message.ts';
import type { ClientOptions } from './options.ts';
import { Outage } from './outage.ts';
import type { ServiceRejection } from './outcome.ts';
import type { Exiting, Keeper, Platform, SentBatch, Transport } from './platform.ts';
import { SendQueue } from './queue.ts';
import { BatchSender, type Settled } from './sender.ts';
import { type ClientSettings, number, resolve } from './settings.ts';
import { WaitingCalls } from './waiting.ts';

/** Milliseconds from an answer to the next request, unless a batch is full or a flush was requested. */
const GATHER_TIME = 10;
/** A timer that is overdue by this many milliseconds counts as lost. */
const LATE = 1_000;

/** Options of `flush` and `close`. */
export interface WaitOptions {
  /** Milliseconds; default: the option `closeTimeout` of the client. */
  timeout?: number;
}

/** The client on any platform; see `Client`. */
export class BaseClient<Events extends object = AnyEvents> {
  readonly #settings: ClientSettings;
  readonly #platform: Platform;
  readonly #tools: Tools;
  readonly #ledger: Ledger;
  readonly #outage: Outage;
  readonly #keeper: Keeper | undefined;
  readonly #queue: SendQueue;
  readonly #transport: Transport;
  readonly #sender: BatchSender;
  readonly #waiting: WaitingCalls;
  readonly #exiting: Exiting = {
    finish: () => this.#finish(),
    abandon: () => this.#dropAll('exit'),
    hurry: () => this.#hurry(),
    part: (isFinal) => this.#part(isFinal),
  };
  /** Messages up to this number are due, even if fewer than `flushAt` have gathered. */
  #flushUpTo = 0;
  /** Under load, messages queued during a request wait briefly for more: few large requests cost both sides less. */
  #gathering = false;
  #lastFlush: number;
  #cancelTimer: (() => void) | undefined;
  /** Time at which the timer is due, in milliseconds since 1970. */
  #timerDue = 0;
  #hasWarned = false;
  #closing: Promise<Report> | undefined;

  /** @internal */
  constructor(writeKey: string, options: ClientOptions, platform: Platform) {
    if (typeof writeKey !== 'string' || writeKey === '') {
      throw new ClientError('bad_configuration', 'writeKey is required', 'writeKey');
    }
    // The service has the same rule: these characters don't fit into Basic credentials.
    if (/[:\p{Cc}\p{Cs}]/u.test(writeKey)) {
      const message = 'writeKey must not have a colon or control characters: is there a line break at its end?';
      throw new ClientError('bad_configuration', message, 'writeKey');
    }
    const settings = resolve(options, platform);
    const { clock, endpoint, onRetry, onLoss } = settings;
    this.#settings = settings;
    this.#platform = platform;
    this.#tools = { clock, byteLength: platform.byteLength };
    this.#ledger = new Ledger(onLoss, platform.warn);
    this.#outage = new Outage({ clock, endpoint, onRetry, warn: platform.warn });
    const kept = settings.spool === undefined ? undefined : openSpool(settings.spool, writeKey, platform, clock.now());
    this.#keeper = kept?.keeper;
    const newBatch = (spent?: SentBatch) => platform.newBatch(clock.now(), writeKey, spent);
    this.#queue = new SendQueue(settings, { newBatch, byteLength: platform.byteLength }, kept?.keeper, kept?.batches);
    const transport = openTransport(writeKey, settings, platform);
    this.#transport = transport;
    this.#waiting = new WaitingCalls(clock);
    this.#sender = new BatchSender({
      ...{ clock, log: platform.log, retryFor: settings.retryFor, maxRetries: settings.maxRetries },
      transport,
      next: () => this.#next(),
      endsAfterBatch: () => this.#waiting.isLooking,
      settled: (batch, outcome) => this.#settled(batch, outcome),
      failed: (failure, wait) => this.#outage.failed(failure, wait, this.#queue.count),
    });
    this.#lastFlush = clock.now();
    if (kept) this.#resume(kept.damaged);
  }

  /** Messages queued or in flight. */
  get queued(): number {
    return this.#queue.count;
  }

  /** Ties a user to traits. Needs `userId` or `anonymousId`. */
  identify(message: IdentifyMessage): boolean {
    return this.#enqueue('identify', message);
  }

  /** Records what a user did. Needs `event`, and `userId` or `anonymousId`. */
  track(message: TrackMessage<Events>): boolean {
    return this.#enqueue('track', message as AnyMessage);
  }

  /** Records a page view. Needs `userId` or `anonymousId`. */
  page(message: PageMessage): boolean {
    return this.#enqueue('page', message);
  }

  /** Records a screen view. Needs `userId` or `anonymousId`. */
  screen(message: ScreenMessage): boolean {
    return this.#enqueue('screen', message);
  }

  /** Ties a user to a group. Needs `groupId`, and `userId` or `anonymousId`. */
  group(message: GroupMessage): boolean {
    return this.#enqueue('group', message);
  }

  /** Says that `previousId` is the user `userId`. Needs both. */
  alias(message: AliasMessage): boolean {
    return this.#enqueue('alias', message);
  }

  /**
   * Sends all queued messages and waits until they and those in flight are settled, or the time is over. Unsettled
   * messages stay queued. Keeps the process alive while it waits.
   *
   * @returns counts of messages by result since the last report; never rejects because of the network
   */
  async flush(options: WaitOptions = {}): Promise<Report> {
    const timeout = number('timeout', options.timeout, this.#settings.closeTimeout, 0);
    if (this.#closing) return this.#closing;
    await this.#drain(timeout);
    return this.#ledger.report();
  }

  /**
   * Flushes like {@link BaseClient.flush}, then ends the client. Messages not settled in time are dropped and reported, or
   * left to the next client if there is a spool. Later calls drop their message. Closing again returns the same promise.
   *
   * @returns counts of messages by result since the last report
   */
  close(options: WaitOptions = {}): Promise<Report> {
    this.#closing ??= this.#close(number('timeout', options.timeout, this.#settings.closeTimeout, 0));
    return this.#closing;
  }

  /** For `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #enqueue(kind: MessageKind, message: AnyMessage): boolean {
    let text: string;
    try {
      text = serialize(kind, message, this.#tools);
    } catch (error) {
      if (this.#settings.invalid === 'throw' || !(error instanceof ClientError)) throw error;
      const { message: why, code } = error;
      const loss: LossFacts = { outcome: 'dropped', reason: 'invalid', count: 1, message: why, code };
      this.#ledger.lost(loss, () => [{ type: kind, ...message }]);
      return false;
    }
    if (this.#closing) return this.#drop('closed', kind, text, 'the client is closed');
    const queue = this.#queue;
    if (!queue.add(text)) {
      return this.#drop('queue_full', kind, text, this.#because(`${queue.count} messages are queued already`));
    }
    if (queue.count === 1) this.#platform.guard(this.#exiting);
    const { log } = this.#platform;
    if (log.enabled) log('%s queued, %d in the queue', kind, queue.count);
    if (this.#platform.isPerRequest) this.#catchUp();
    if (this.#ready()) this.#sender.wake();
    else this.#cancelTimer ??= this.#startTimer();
    return true;
  }

  #drop(reason: LossReason, _kind: MessageKind, text: string, message: string): false {
    this.#platform.log('message dropped: %s', message);
    const loss: LossFacts = { outcome: 'dropped', reason, count: 1, message };
    this.#ledger.lost(loss, () => [JSON.parse(text)]);
    return false;
  }

  /** Adds the last request's error, which explains most losses. */
  #because(message: string): string {
    const { last } = this.#outage;
    return last ? `${message}; the last request failed: ${last.message}` : message;
  }

  /** Fires when `flushAfter` has passed since the last flush, or a multiple of it if nothing was queued then. */
  #startTimer(): () => void {
    const { clock, flushAfter } = this.#settings;
    const now = clock.now();
    const wait = flushAfter - (Math.max(0, now - this.#lastFlush) % flushAfter);
    this.#timerDue = now + wait;
    return clock.after(wait, () => {
      this.#cancelTimer = undefined;
      this.#requestFlush();
      this.#sender.wake();
    });
  }

  /** Restarts timers and sending that ended with the host's request that had started them. */
  #catchUp(): void {
    const isTimerLost = this.#cancelTimer !== undefined && this.#settings.clock.now() > this.#timerDue + LATE;
    if (isTimerLost) {
      this.#cancelTimer = undefined;
      this.#requestFlush();
    }
    const isLost = this.#sender.takeOver() || isTimerLost;
    const left = this.#queue.count - 1;
    if (!isLost || left === 0 || this.#waiting.isLooking || this.#hasWarned) return;
    this.#hasWarned = true;
    this.#platform.warn(
      `Messages of earlier requests are still queued (${left}): timers and requests end here with the request that made them. ` +
        'End each request with ctx.waitUntil(client.flush()).',
    );
  }

  #requestFlush(): void {
    this.#flushUpTo = this.#queue.taken;
  }

  /** True if a batch should be sent now. */
  #ready(): boolean {
    const queue = this.#queue;
    if (queue.full || this.#flushUpTo > queue.removed) return true;
    return queue.gathered >= this.#settings.flushAt && !this.#gathering;
  }

  #next(): SentBatch | undefined {
    const batch = this.#ready() ? this.#queue.next() : undefined;
    if (!batch) return undefined;
    this.#lastFlush = this.#settings.clock.now();
    this.#platform.log('sending %d messages, %d bytes', batch.count, batch.bytes);
    return batch;
  }

  #settled(batch: SentBatch, outcome: Settled): void {
    // Another request of the host has sent it too, and settled it first.
    if (batch !== this.#queue.first) return;
    if (outcome.kind !== 'expired') this.#outage.ended();
    if (outcome.kind === 'sent') this.#sent(batch, outcome.rejected);
    else {
      const { kind: reason, ...rest } = outcome;
      this.#platform.log('%d messages failed: %s', batch.count, outcome.message);
      const loss: LossFacts = { ...rest, outcome: 'failed', reason, count: batch.count };
      this.#ledger.lost(loss, () => batch.messages());
    }
    this.#remove(outcome.kind !== 'sent');
  }

  #sent(batch: SentBatch, rejected: ServiceRejection[]): void {
    const refused = rejected.filter(({ index }) => index >= 0 && index < batch.count);
    this.#ledger.sent(batch.count - refused.length);
    this.#platform.log('%d messages sent, %d of them rejected', batch.count, refused.length);
    // Read it now, since the memory of the batch is reused.
    const messages = refused.length === 0 ? [] : batch.messages();
    for (const { index, code, message } of refused) {
      const loss = { outcome: 'failed', reason: 'rejected', count: 1, message, status: 200 } as const;
      this.#ledger.lost(code === undefined ? loss : { ...loss, code }, () => [messages[index] ?? {}]);
    }
  }

  #remove(isRead: boolean): void {
    const queue = this.#queue;
    queue.remove(isRead);
    if (queue.count === 0) this.#platform.unguard(this.#exiting);
    if (queue.gathered > 0 && !this.#platform.isPerRequest) this.#gather();
    this.#waiting.settled(queue.removed);
  }

  #gather(): void {
    this.#gathering = true;
    this.#settings.clock.after(GATHER_TIME, () => {
      this.#gathering = false;
      if (this.#ready()) this.#sender.wake();
    });
  }

  #hurry(): void {
    this.#requestFlush();
    this.#sender.hurry();
  }

  /** Waits until all messages queued now are settled, for `timeout` milliseconds at most. */
  #drain(timeout: number): Promise<void> {
    const queue = this.#queue;
    const upTo = queue.taken;
    if (upTo === queue.removed) return Promise.resolve();
    this.#hurry();
    if (!this.#platform.isPerRequest) return this.#waiting.until(upTo, timeout);
    return this.#waiting.sending(this.#sender, () => queue.removed >= upTo, timeout);
  }

  async #close(timeout: number): Promise<Report> {
    await this.#drain(timeout);
    this.#cancelTimer?.();
    this.#sender.stop();
    this.#dropAll('deadline');
    return this.#ledger.report();
  }

  /** Sends what is queued when the process has nothing else to do. Closes only if time runs out: code that awaited it may send more. */
  async #finish(): Promise<void> {
    const upTo = this.#queue.taken;
    await this.#drain(this.#settings.closeTimeout);
    if (this.#queue.removed < upTo) await this.close({ timeout: 0 });
  }

  /** Gives up all unsettled messages, unless a spool keeps them. */
  #dropAll(reason: 'deadline' | 'exit'): void {
    this.#platform.unguard(this.#exiting);
    if (this.#keeper) this.#keeper.release();
    else {
      const what = reason === 'exit' ? 'the process exited before close()' : 'close() ran out of time';
      for (const batch of this.#queue.all()) {
        const loss = this.#givenUp(reason, what, batch.count);
        this.#ledger.lost(loss, () => batch.messages());
      }
    }
  }

  #givenUp(reason: LossReason, what: string, count: number): LossFacts {
    const status = this.#outage.last?.status;
    const loss = { outcome: 'dropped', reason, count, message: this.#because(what) } as const;
    return status === undefined ? loss : { ...loss, status };
  }

  #part(isFinal: boolean): void {
    const { posting } = this.#sender;
    const left = this.#queue.all().filter((batch) => batch !== posting);
    const messages = left.flatMap((batch) => batch.messages());
    const lost = messages.slice(this.#transport.handOver?.(messages) ?? 0);
    if (!isFinal) return;
    this.#platform.unguard(this.#exiting);
    this.#sender.leave();
    if (lost.length === 0) return;
    this.#ledger.lost(this.#givenUp('exit', 'the page ended before close()', lost.length), () => lost);
  }

  #resume(damaged: number): void {
    if (damaged > 0) {
      const loss = { outcome: 'dropped', reason: 'spool_damaged', message: 'cut off in the spool' } as const;
      this.#ledger.lost({ ...loss, count: damaged }, () => []);
    }
    if (this.#queue.count > 0) this.#platform.guard(this.#exiting);
    this.#sender.wake();
  }
}

function openSpool(folder: string, writeKey: string, platform: Platform, now: number) {
  if (!platform.openSpool) throw new ClientError('bad_configuration', 'there are no folders for a spool here', 'spool');
  try {
    return platform.openSpool(folder, writeKey, now);
  } catch (cause) {
    throw new ClientError('bad_configuration', `the spool ${folder} can't be used: ${textOf(cause)}`, 'spool', {
      cause,
    });
  }
}

function openTransport(writeKey: string, settings: ClientSettings, platform: Platform): Transport {
  const { endpoint, fetch, clock, requestTimeout } = settings;
  if (!fetch) return platform.transport(writeKey, settings);
  const headers = { 'content-type': 'application/json', authorization: `Basic ${btoa(`${writeKey}:`)}` };
  return new FetchTransport({ url: endpoint.href, headers, requestTimeout, clock, fetch });
}
