import isEqual from 'lodash/isEqual.js';
import type { BatchOptions } from '../destination.ts';
import type { Clock } from '../kernel/clock.ts';
import type { Claim } from '../store/port.ts';
import { readAnswer } from './batch-answer.ts';
import { isShortage } from './classify.ts';
import type { Window } from './endpoint/window.ts';
import { BATCH_BYTES, envelopeBytes } from './envelope.ts';
import type { Exchange } from './exchange.ts';
import { ALONE_AFTER } from './suspects.ts';
import type { Denial, SkipCause } from './verdict.ts';

/*
 * Gathers deliveries of one endpoint into requests. First tries and retries are gathered separately and never mixed. Each
 * gathering goes through these modes:
 *
 * - gathering: messages arrive (`add`), and a timer of `wait` milliseconds runs.
 * - ready: the timer has fired (`isDue`), there are `limit` messages or `BATCH_BYTES` bytes, or something must not wait:
 *   a deletion notice, a message that must be posted alone, or full memory.
 * - sending: a loop takes a place in the endpoint's window for each request, until nothing is ready (`send`).
 * - splitting: after a 400 or 413 the request is sent again in halves (`parts`), before anything else, down to one
 *   message, whose answer is then its own. After other failures its messages become retries, in smaller requests.
 *
 * `limit` is the number of messages per request: halved when a request fails, doubled up to `size` when one succeeds, and
 * one while the endpoint is closed. Every message ends exactly once: with an exchange, a reason for skipping, or an error.
 */

interface BatchedMessage {
  readonly claim: Claim;
  /** Permission to post is checked once per generation. */
  readonly generation: number;
  /** Called exactly once. */
  readonly done: (result: Result) => void;
}

/** A message's part in an exchange, and its start. Messages with the same result share it. */
export interface Posted {
  readonly exchange: Exchange;
  readonly at: number;
  readonly denial: Denial | null;
}

export type Result = Posted | { readonly skipped: SkipCause } | { readonly error: unknown };

/** Bodies waiting for or in batch requests, over all endpoints of a process. */
export interface BatchMemory {
  bytes: number;
}

/** Limit of bytes of all bodies. An endpoint with nothing waiting gets its first message regardless. */
const MEMORY_LIMIT = 32 * 1024 * 1024;

/** The endpoint that requests go to, which limits how many run at a time. */
interface EndpointPlaces {
  readonly window: Pick<Window, 'open' | 'begun'>;
  /** Waits for a place, or resolves to the reason why there is none. */
  enter(mayPost: () => boolean): Promise<SkipCause | null>;
  /** Returns an unused place. */
  withdraw(): void;
}

interface BatcherOptions {
  readonly clock: Clock;
  readonly outlet: EndpointPlaces;
  readonly memory: BatchMemory;
  readonly mayPost: (generation: number) => boolean;
  readonly post: (claims: readonly Claim[]) => Promise<Exchange>;
  /** Counts an exchange in the endpoint's window; returns the kind of denial, if it is one. */
  readonly leave: (exchange: Exchange, begun: number, claim: Claim) => Denial | null;
  /** Secrets to hide if an answer repeats them. */
  readonly secrets: () => readonly string[];
  readonly onRoom: () => void;
}

/** A message until its request is answered or fails. It counts towards the memory until then. */
class WaitingMessage {
  readonly item: BatchedMessage;
  readonly bytes: number;
  private readonly memory: BatchMemory;
  private hasEnded = false;

  constructor(item: BatchedMessage, memory: BatchMemory) {
    this.item = item;
    this.bytes = Buffer.byteLength(item.claim.body);
    this.memory = memory;
    memory.bytes += this.bytes;
  }

  end(result: Result): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.memory.bytes -= this.bytes;
    this.item.done(result);
  }
}

interface Gathering {
  items: WaitingMessage[];
  /** Current limit of messages per request: halved when a request fails, doubled when one succeeds. */
  limit: number;
  /** Size of the items in an envelope. */
  bytes: number;
  /** Parts of split batches, each posted alone. */
  parts: WaitingMessage[][];
  /** True once `wait` has passed. */
  isDue: boolean;
  isSending: boolean;
  cancelTimer: (() => void) | null;
}

const gathering = (limit: number): Gathering => ({
  items: [],
  limit,
  bytes: 0,
  parts: [],
  isDue: false,
  isSending: false,
  cancelTimer: null,
});

/**
 * Gathers the deliveries of one endpoint into requests of up to `size` messages. A request takes one place in the
 * endpoint's window; each message has its own outcome. Retries are not mixed with first tries.
 */
export class Batcher {
  private readonly options: BatcherOptions;
  private settings: BatchOptions;
  private readonly firsts: Gathering;
  private readonly retries: Gathering;

  constructor(settings: BatchOptions, options: BatcherOptions) {
    this.settings = settings;
    this.firsts = gathering(settings.size);
    this.retries = gathering(settings.size);
    this.options = options;
  }

  /** Applies changed settings, also to messages already gathered. */
  configure(settings: BatchOptions): void {
    if (isEqual(settings, this.settings)) return;
    const isResized = settings.size !== this.settings.size;
    this.settings = settings;
    for (const each of [this.firsts, this.retries]) {
      if (isResized) each.limit = settings.size;
      cancelWait(each);
      this.look(each);
    }
  }

  /** Sends the gathered messages without waiting for more. */
  hurry(): void {
    for (const each of [this.firsts, this.retries]) {
      each.isDue = each.items.length > 0;
      this.look(each);
    }
  }

  /** Current limit of messages in a request of first tries. */
  get size(): number {
    return this.sizeOf(this.firsts);
  }

  /** A closed endpoint is probed with one message. */
  private sizeOf({ limit }: Gathering): number {
    return this.options.outlet.window.open ? limit : 1;
  }

  get gathered(): number {
    return count(this.firsts) + count(this.retries);
  }

  /**
   * True if there is room for one more message.
   *
   * @param places - requests that may begin now
   */
  hasRoom(places: number): boolean {
    if (this.gathered === 0) return places > 0;
    return this.gathered < places * this.size && this.options.memory.bytes < MEMORY_LIMIT;
  }

  add(item: BatchedMessage): void {
    const into = item.claim.tries > 0 ? this.retries : this.firsts;
    const waiting = new WaitingMessage(item, this.options.memory);
    into.items.push(waiting);
    into.bytes += envelopeBytes(waiting.bytes, item.claim.id);
    if (this.endsWait(item.claim)) into.isDue = true;
    this.look(into);
  }

  /** True for messages that must go now: suspects and notices, and any while the memory is full. */
  private endsWait({ crashes, lane }: Claim): boolean {
    return crashes >= ALONE_AFTER || this.options.memory.bytes >= MEMORY_LIMIT || lane === 'deletion';
  }

  /** Releases messages that may no longer be posted; with `all`, every message. */
  cut(all = false): void {
    const mayPost = this.permission();
    const isKept = (waiting: WaitingMessage) => {
      if (!all && mayPost(waiting)) return true;
      waiting.end(CUT);
      return false;
    };
    for (const each of [this.firsts, this.retries]) {
      if (count(each) === 0) continue;
      each.parts = each.parts.map((part) => part.filter(isKept)).filter((part) => part.length > 0);
      const { length } = each.items;
      each.items = each.items.filter(isKept);
      if (each.items.length < length) each.bytes = bytesOf(each.items);
      if (each.items.length === 0) disarm(each);
    }
  }

  /** Checks if messages may be posted now, once per generation. */
  private permission(): (waiting: WaitingMessage) => boolean {
    let asked: number | null = null;
    let answer = false;
    return ({ item: { generation } }) => {
      if (generation !== asked) answer = this.options.mayPost(generation);
      asked = generation;
      return answer;
    };
  }

  private look(from: Gathering): void {
    if (from.isSending) return;
    if (this.isReady(from)) void this.send(from);
    else if (from.items.length > 0 && from.cancelTimer === null) {
      from.cancelTimer = this.options.clock.after(this.settings.wait, () => {
        from.cancelTimer = null;
        from.isDue = true;
        this.look(from);
      });
    }
  }

  private isReady(from: Gathering): boolean {
    if (from.parts.length > 0) return true;
    if (from.items.length === 0) return false;
    return from.isDue || from.items.length >= this.sizeOf(from) || envelopeBytes() + from.bytes > BATCH_BYTES;
  }

  /** Posts ready messages as fast as the window has places. Never rejects. */
  private async send(from: Gathering): Promise<void> {
    const { outlet } = this.options;
    from.isSending = true;
    while (this.isReady(from)) {
      const skipped = await outlet.enter(() => this.mayPostAny(from));
      if (skipped !== null) {
        for (const item of [...from.parts.splice(0).flat(), ...from.items.splice(0)]) item.end({ skipped });
        from.bytes = 0;
        disarm(from);
        break;
      }
      this.cut();
      const items = this.next(from);
      if (items.length === 0) outlet.withdraw();
      else void this.post(items, from);
    }
    from.isSending = false;
    this.look(from);
  }

  private mayPostAny({ parts, items }: Gathering): boolean {
    const mayPost = this.permission();
    return items.some(mayPost) || parts.some((part) => part.some(mayPost));
  }

  private next(from: Gathering): readonly WaitingMessage[] {
    const part = from.parts.shift();
    if (part) return part;
    const items = from.items.splice(0, fitting(from.items, this.sizeOf(from)));
    from.bytes -= bytesOf(items);
    const { isDue } = from;
    disarm(from);
    // Some due messages may not have fitted.
    from.isDue = isDue && from.items.length > 0;
    return items;
  }

  private async post(items: readonly WaitingMessage[], from: Gathering): Promise<void> {
    const { clock, outlet, post, onRoom } = this.options;
    const at = clock.now();
    const { begun } = outlet.window;
    let exchange: Exchange;
    try {
      exchange = await post(items.map(({ item }) => item.claim));
    } catch (error) {
      outlet.withdraw();
      // One message can't be made into a request: the others can.
      if (items.length > 1) this.split(items, from);
      else for (const item of items) item.end({ error });
      return;
    }
    try {
      this.answered(items, from, exchange, { at, begun });
      onRoom();
    } catch (error) {
      for (const item of items) item.end({ error });
    }
  }

  private answered(
    items: readonly WaitingMessage[],
    from: Gathering,
    exchange: Exchange,
    { at, begun }: { at: number; begun: number },
  ): void {
    const [first] = items as readonly [WaitingMessage, ...WaitingMessage[]];
    const exchanges = readAnswer(exchange, items.length, this.options.secrets());
    // A handler that rejects a whole batch for retry means the same as a 5xx.
    const isTaken = exchanges.some(({ outcome }) => outcome !== 'retry');
    const whole = isTaken ? exchange : (exchanges[0] ?? exchange);
    const denial = this.options.leave(whole, begun, first.item.claim);
    if (isTooMuch(exchange) && items.length > 1) this.split(items, from);
    else {
      if (!isShortage(whole)) this.adapt(from, whole, items.length);
      let result = { exchange, at, denial };
      for (let index = 0; index < items.length; index += 1) {
        const own = exchanges[index] ?? exchange;
        if (own !== result.exchange) result = { exchange: own, at, denial };
        items[index]?.end(result);
      }
    }
  }

  /** Splits a batch into halves, each posted alone: down to one message, whose answer is then its own. */
  private split(items: readonly WaitingMessage[], from: Gathering): void {
    const half = Math.ceil(items.length / 2);
    this.shrink(from, half);
    from.parts.push(items.slice(0, half), items.slice(half));
    this.look(from);
  }

  /** A success raises the limit of first tries too; a failed batch is retried in smaller ones. */
  private adapt(from: Gathering, { outcome, status }: Exchange, count: number): void {
    if (outcome === 'success') {
      for (const each of new Set([from, this.firsts])) each.limit = Math.min(this.settings.size, each.limit * 2);
    } else if (outcome === 'retry' && (status === null || status < 300 || status >= 500)) {
      this.shrink(from, Math.floor(count / 2));
    }
  }

  /** A failed retry says nothing about first tries. */
  private shrink(from: Gathering, size: number): void {
    for (const each of new Set([from, this.retries])) each.limit = Math.max(1, Math.min(each.limit, size));
  }
}

/** Makes the next messages wait in full. */
function disarm(from: Gathering): void {
  cancelWait(from);
  from.isDue = false;
}

function cancelWait(from: Gathering): void {
  from.cancelTimer?.();
  from.cancelTimer = null;
}

const count = ({ items, parts }: Gathering) => items.length + parts.reduce((sum, part) => sum + part.length, 0);

/** One message may be to blame if the endpoint does not understand the body or finds it too large. */
const isTooMuch = ({ status }: Exchange) => status === 400 || status === 413;

const CUT: Result = { skipped: 'cut' };

const bytesOf = (items: readonly WaitingMessage[]) =>
  items.reduce((sum, { item, bytes }) => sum + envelopeBytes(bytes, item.claim.id), 0);

/** Number of leading items that go into one request: at least one, at most `most`. */
function fitting(items: readonly WaitingMessage[], most: number): number {
  let sum = envelopeBytes();
  let count = 0;
  for (const { item, bytes } of items) {
    sum += envelopeBytes(bytes, item.claim.id);
    if (count > 0 && (count >= most || sum > BATCH_BYTES)) break;
    count += 1;
  }
  return count;
}
