import type { Batch } from './batch.ts';
import { deadline } from './clock.ts';
import { ClientError } from './errors.ts';
import { type Exiting, guard, unguard } from './exit.ts';
import { Ledger, type LossReason, type Report } from './ledger.ts';
import { log } from './log.ts';
import {
  type AliasMessage,
  type GroupMessage,
  type IdentifyMessage,
  type Kind,
  type PageMessage,
  type ScreenMessage,
  serialize,
  type TrackMessage,
} from './message.ts';
import { type ClientOptions, number, resolve, type Settings } from './options.ts';
import type { Rejection } from './outcome.ts';
import { Queue } from './queue.ts';
import { Sender, type Settled } from './sender.ts';
import { Spool } from './spool.ts';
import { Transport } from './transport.ts';

/** Milliseconds between an answer and the next request that is neither full nor asked for. */
const GATHER_TIME = 10;

/** How long to wait at most. */
export interface WaitOptions {
  /** Milliseconds; default: the option `closeTimeout` of the client. */
  timeout?: number;
}

interface Waiter {
  /** Done once so many messages have left the queue. */
  upTo: number;
  done: () => void;
}

/**
 * Records messages and sends them in batches in the background, in the order of the calls.
 *
 * A call checks the message and queues it: it makes no request, waits for nothing, and throws only if the message
 * itself is wrong ({@link ClientError}). It returns false if the message was dropped because the queue is full or the
 * client closed, which `onLoss` is told as well.
 *
 * @example
 * const client = new Client('WRITE_KEY', { endpoint: 'http://127.0.0.1:8080' });
 * client.track({ userId: 'u1', event: 'Order Completed', properties: { total: 30 } });
 * await client.close();
 */
export class Client {
  readonly #settings: Settings;
  readonly #ledger: Ledger;
  readonly #spool: Spool | undefined;
  readonly #queue: Queue;
  readonly #transport: Transport;
  readonly #sender: Sender;
  readonly #exiting: Exiting = { close: () => this.close(), abandon: () => this.#dropAll('exit') };
  #waiters: Waiter[] = [];
  /** Messages up to this number are to be sent although fewer than `flushAt` have gathered. */
  #flushUpTo = 0;
  /** Under load, what came during a request waits a little for more: few large requests cost both sides less. */
  #gathering = false;
  #lastFlush: number;
  #cancelTimer: (() => void) | undefined;
  #closing: Promise<Report> | undefined;

  /**
   * @param writeKey the key of the source
   * @throws ClientError `bad_configuration`, naming the option; an error of the file system if the spool is unusable
   */
  constructor(writeKey: string, options: ClientOptions = {}) {
    if (typeof writeKey !== 'string' || writeKey === '') {
      throw new ClientError('bad_configuration', 'writeKey is required', 'writeKey');
    }
    const settings = resolve(options);
    this.#settings = settings;
    this.#ledger = new Ledger(settings.onLoss);
    this.#spool = settings.spool === undefined ? undefined : new Spool(settings.spool, writeKey);
    const leftover = this.#spool?.adopt(settings.clock.now());
    this.#queue = new Queue(settings, this.#spool, leftover?.batches);
    this.#transport = new Transport(settings.endpoint, writeKey, settings);
    this.#sender = new Sender({
      clock: settings.clock,
      transport: this.#transport,
      retryFor: settings.retryFor,
      next: () => this.#next(),
      settled: (batch, outcome) => this.#settled(batch, outcome),
    });
    this.#lastFlush = settings.clock.now();
    if (leftover) this.#resume(leftover.damaged);
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
  track(message: TrackMessage): boolean {
    return this.#enqueue('track', message);
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
   * Sends what is queued and waits until all of it, and what is in flight, is settled or the time is over; what is
   * left then stays queued. Keeps the process alive meanwhile.
   *
   * @returns what became of messages since the last report, never rejects for reasons of the network
   */
  async flush(options: WaitOptions = {}): Promise<Report> {
    const timeout = number('timeout', options.timeout, this.#settings.closeTimeout, 0);
    if (this.#closing) return this.#closing;
    await this.#drain(timeout);
    return this.#ledger.report();
  }

  /**
   * As {@link Client.flush}, and ends the client. What is not settled in time is dropped and reported, or left to the
   * next client if there is a spool. Later calls drop their message; closing again returns the same promise.
   *
   * @returns what became of messages since the last report
   */
  close(options: WaitOptions = {}): Promise<Report> {
    this.#closing ??= this.#close(number('timeout', options.timeout, this.#settings.closeTimeout, 0));
    return this.#closing;
  }

  /** For `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #enqueue(kind: Kind, message: Parameters<typeof serialize>[1]): boolean {
    const text = serialize(kind, message, this.#settings.clock);
    if (this.#closing) return this.#drop('closed', text, 'the client is closed');
    const queue = this.#queue;
    if (!queue.add(text)) return this.#drop('queue_full', text, `${queue.count} messages are queued already`);
    if (queue.count === 1) guard(this.#exiting);
    if (log.enabled) log('%s queued, %d in the queue', kind, queue.count);
    if (this.#ready()) this.#sender.wake();
    else this.#cancelTimer ??= this.#startTimer();
    return true;
  }

  #drop(reason: LossReason, text: string, message: string): false {
    log('message dropped: %s', message);
    this.#ledger.lost({ outcome: 'dropped', reason, count: 1, message }, () => [JSON.parse(text)]);
    return false;
  }

  /** Fires when `flushAfter` has passed since the last flush, or a multiple of it if nothing was queued then. */
  #startTimer(): () => void {
    const { clock, flushAfter } = this.#settings;
    const since = Math.max(0, clock.now() - this.#lastFlush);
    return clock.after(flushAfter - (since % flushAfter), () => {
      this.#cancelTimer = undefined;
      this.#requestFlush();
      this.#sender.wake();
    });
  }

  #requestFlush(): void {
    this.#flushUpTo = this.#queue.taken;
  }

  /** Whether there is a batch to send now. */
  #ready(): boolean {
    const queue = this.#queue;
    if (queue.full || this.#flushUpTo > queue.removed) return true;
    return queue.gathered >= this.#settings.flushAt && !this.#gathering;
  }

  #next(): Batch | undefined {
    const batch = this.#ready() ? this.#queue.next() : undefined;
    if (!batch) return undefined;
    this.#lastFlush = this.#settings.clock.now();
    log('sending %d messages, %d bytes', batch.count, batch.bytes);
    return batch;
  }

  #settled(batch: Batch, outcome: Settled): void {
    if (outcome.kind === 'sent') this.#sent(batch, outcome.rejected);
    else {
      const { kind: reason, ...rest } = outcome;
      log('%d messages failed: %s', batch.count, outcome.message);
      this.#ledger.lost({ ...rest, outcome: 'failed', reason, count: batch.count }, () => batch.messages());
    }
    this.#remove();
  }

  #sent(batch: Batch, rejected: Rejection[]): void {
    const refused = rejected.filter(({ index }) => index >= 0 && index < batch.count);
    this.#ledger.sent(batch.count - refused.length);
    log('%d messages sent, %d of them rejected', batch.count, refused.length);
    if (refused.length === 0) return;
    const messages = batch.messages();
    for (const { index, code, message } of refused) {
      const loss = { outcome: 'failed', reason: 'rejected', count: 1, message, status: 200 } as const;
      this.#ledger.lost(code === undefined ? loss : { ...loss, code }, () => [messages[index] ?? {}]);
    }
  }

  #remove(): void {
    const queue = this.#queue;
    queue.remove();
    if (queue.count === 0) unguard(this.#exiting);
    if (queue.gathered > 0) this.#gather();
    for (const { done } of this.#waiters.filter(({ upTo }) => upTo <= queue.removed)) done();
  }

  #gather(): void {
    this.#gathering = true;
    this.#settings.clock.after(GATHER_TIME, () => {
      this.#gathering = false;
      if (this.#ready()) this.#sender.wake();
    });
  }

  /** Waits until what is queued now is settled, for `timeout` milliseconds at most. */
  #drain(timeout: number): Promise<void> {
    const { clock } = this.#settings;
    const upTo = this.#queue.taken;
    if (upTo === this.#queue.removed) return Promise.resolve();
    this.#requestFlush();
    this.#sender.hurry();
    return new Promise((resolve) => {
      const cancel = deadline(clock, timeout, () => waiter.done(), true);
      const waiter = {
        upTo,
        done: () => {
          cancel();
          this.#waiters = this.#waiters.filter((other) => other !== waiter);
          resolve();
        },
      };
      this.#waiters.push(waiter);
    });
  }

  async #close(timeout: number): Promise<Report> {
    await this.#drain(timeout);
    this.#cancelTimer?.();
    this.#sender.stop();
    this.#dropAll('deadline');
    return this.#ledger.report();
  }

  /** Gives up all that is not settled, unless a spool keeps it. */
  #dropAll(reason: 'deadline' | 'exit'): void {
    unguard(this.#exiting);
    if (this.#spool) {
      this.#spool.release();
      return;
    }
    const message = reason === 'exit' ? 'the process exited before close()' : 'close() ran out of time';
    for (const batch of this.#queue.all()) {
      this.#ledger.lost({ outcome: 'dropped', reason, count: batch.count, message }, () => batch.messages());
    }
  }

  #resume(damaged: number): void {
    if (damaged > 0) {
      const loss = { outcome: 'dropped', reason: 'spool_damaged', message: 'cut off in the spool' } as const;
      this.#ledger.lost({ ...loss, count: damaged }, () => []);
    }
    if (this.#queue.count > 0) guard(this.#exiting);
    this.#sender.wake();
  }
}
