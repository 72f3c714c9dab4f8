import isEqual from 'lodash/isEqual.js';
import type { BatchOptions } from '../destination.ts';
import type { Clock } from '../kernel/clock.ts';
import type { Claim } from '../store/port.ts';
import { readAnswer } from './batch-answer.ts';
import type { Window } from './endpoint/window.ts';
import { BATCH_BYTES, envelopeBytes } from './envelope.ts';
import type { Exchange } from './exchange.ts';
import { ALONE_AFTER } from './suspects.ts';
import type { Denial, SkipCause } from './verdict.ts';

/*
 * Gathers deliveries of one endpoint into requests. There are two gatherings, first tries and retries, which never mix. Each
 * goes through these modes:
 *
 * - gathering: items arrive (`add`), and a timer of `wait` milliseconds runs.
 * - ready: the timer has run out (`isDue`), or there are `limit` messages or `BATCH_BYTES` bytes, or something may not wait:
 *   a deletion notice, a message that must be posted alone, or full memory.
 * - sending: a loop takes a place in the endpoint's window for each request, until nothing is ready (`send`).
 * - splitting: an endpoint that answers 400 or 413 gets the request again in halves (`parts`), which go before everything
 *   else, down to one message, whose answer is then its own. Other failures make its messages retries, in smaller requests.
 *
 * `limit` is the number of messages in a request: halved when a request fails, doubled when one succeeds, `size` at most, and
 * one while the endpoint is closed. Every message ends exactly once, with an exchange, a reason why it was skipped, or an error.
 */

/** A message that goes in a batch. */
interface BatchedMessage {
  readonly claim: Claim;
  /** Whether messages may still be posted is asked once for all of a generation. */
  readonly generation: number;
  /** Called once. */
  readonly done: (result: Result) => void;
}

/** A message's part in an exchange, and when that began. Messages to which the same came share it. */
export interface Posted {
  readonly exchange: Exchange;
  readonly at: number;
  readonly denial: Denial | null;
}

/** A message's result at one endpoint: its part in an exchange, why there was none, or why it can't be made into a request. */
export type Result = Posted | { readonly skipped: SkipCause } | { readonly error: unknown };

/** Bodies that wait for, or are in, requests with several messages, over all endpoints of a process. */
export interface BatchMemory {
  bytes: number;
}

/** Bytes of all bodies at most. An endpoint that has nothing waiting gets its first message all the same. */
const MEMORY_LIMIT = 32 * 1024 * 1024;

/** The endpoint that the requests go to, with room for some of them at a time. */
interface EndpointPlaces {
  readonly window: Pick<Window, 'open' | 'begun'>;
  /** Waits for a place, or says why there is none. */
  enter(mayPost: () => boolean): Promise<SkipCause | null>;
  /** Gives a place back that was not used. */
  withdraw(): void;
}

interface BatcherOptions {
  readonly clock: Clock;
  readonly outlet: EndpointPlaces;
  readonly memory: BatchMemory;
  /** Whether messages of a generation may still be posted. */
  readonly mayPost: (generation: number) => boolean;
  /** Posts an envelope. */
  readonly post: (claims: readonly Claim[]) => Promise<Exchange>;
  /** Counts an exchange in the endpoint's window; says whether it was a refusal that may be of everything. */
  readonly leave: (exchange: Exchange, begun: number, claim: Claim) => Denial | null;
  /** Secrets that an answer may repeat and nobody may read there. */
  readonly secrets: () => readonly string[];
  /** Called when there may be room for more. */
  readonly onRoom: () => void;
}

/** A message until its request is answered, or can't be made. It counts in the memory meanwhile. */
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

/** Messages that gather for one request. */
interface Gathering {
  items: WaitingMessage[];
  /** Messages in a request at most, now: it halves when a request fails and doubles when one succeeds. */
  limit: number;
  /** Size of the items in an envelope. */
  bytes: number;
  /** Parts of batches that were split, each to be posted by itself. */
  parts: WaitingMessage[][];
  /** Whether `wait` is over. */
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
 * Gathers the deliveries of one endpoint into requests of up to `size` messages. A request takes one place in the endpoint's
 * window, and each of its messages has an outcome of its own. What is tried again is not mixed with first tries.
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

  /** Takes changed settings: what has gathered waits by them from now on. */
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

  /** Sends what has gathered without waiting for more. */
  hurry(): void {
    for (const each of [this.firsts, this.retries]) {
      each.isDue = each.items.length > 0;
      this.look(each);
    }
  }

  /** Messages that a request of first tries may hold now. */
  get size(): number {
    return this.sizeOf(this.firsts);
  }

  /** An endpoint that is closed is probed with one. */
  private sizeOf({ limit }: Gathering): number {
    return this.options.outlet.window.open ? limit : 1;
  }

  /** Messages that wait for a request. */
  get gathered(): number {
    return count(this.firsts) + count(this.retries);
  }

  /**
   * Whether one more message may come.
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

  /** All else waits for what is posted alone, and others for room in the memory; a notice is not put off further. */
  private endsWait({ crashes, lane }: Claim): boolean {
    return crashes >= ALONE_AFTER || this.options.memory.bytes >= MEMORY_LIMIT || lane === 'deletion';
  }

  /** Gives back what may not be posted any more; with `all`, whatever it is. */
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

  /** Whether messages may be posted now. All of one generation get the same answer. */
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

  /** Posts what is ready, as fast as the window has places. It never rejects. */
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
    // Of what is due, some may not have fitted.
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
      // One of them can't be made into a request: the others can.
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
    // A handler that takes none of a whole batch says what a 5xx would say.
    const isTaken = exchanges.some(({ outcome }) => outcome !== 'retry');
    const whole = isTaken ? exchange : (exchanges[0] ?? exchange);
    const denial = this.options.leave(whole, begun, first.item.claim);
    if (isTooMuch(exchange) && items.length > 1) this.split(items, from);
    else {
      this.adapt(from, whole, items.length);
      let result = { exchange, at, denial };
      for (let index = 0; index < items.length; index += 1) {
        const own = exchanges[index] ?? exchange;
        if (own !== result.exchange) result = { exchange: own, at, denial };
        items[index]?.end(result);
      }
    }
  }

  /** Halves, each to be posted by itself: down to one message, whose answer is then its own. */
  private split(items: readonly WaitingMessage[], from: Gathering): void {
    const half = Math.ceil(items.length / 2);
    this.shrink(from, half);
    from.parts.push(items.slice(0, half), items.slice(half));
    this.look(from);
  }

  /** What succeeds says that first tries would; what failed at its first try comes again in requests as small. */
  private adapt(from: Gathering, { outcome, status }: Exchange, count: number): void {
    if (outcome === 'success') {
      for (const each of new Set([from, this.firsts])) each.limit = Math.min(this.settings.size, each.limit * 2);
    } else if (outcome === 'retry' && (status === null || status < 300 || status >= 500)) {
      this.shrink(from, Math.floor(count / 2));
    }
  }

  /** What fails again says nothing of first tries. */
  private shrink(from: Gathering, size: number): void {
    for (const each of new Set([from, this.retries])) each.limit = Math.max(1, Math.min(each.limit, size));
  }
}

/** Has what comes next wait in full. */
function disarm(from: Gathering): void {
  cancelWait(from);
  from.isDue = false;
}

function cancelWait(from: Gathering): void {
  from.cancelTimer?.();
  from.cancelTimer = null;
}

const count = ({ items, parts }: Gathering) => items.length + parts.reduce((sum, part) => sum + part.length, 0);

/** A body that the endpoint does not understand, or that is too large, may be one message's fault. */
const isTooMuch = ({ status }: Exchange) => status === 400 || status === 413;

const CUT: Result = { skipped: 'cut' };

/** Size of the items in an envelope. */
const bytesOf = (items: readonly WaitingMessage[]) =>
  items.reduce((sum, { item, bytes }) => sum + envelopeBytes(bytes, item.claim.id), 0);

/** How many of the first items go into one request: one at least, and `most` at most. */
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
