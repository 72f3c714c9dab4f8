import type { Clock } from '../clock.ts';
import type { BatchOptions } from '../destination.ts';
import type { Claim } from '../store/port.ts';
import { readAnswer } from './batch-answer.ts';
import { BATCH_BYTES, envelopeBytes } from './envelope.ts';
import type { Exchange } from './exchange.ts';
import type { Denial, SkipCause } from './verdict.ts';
import type { Window } from './window.ts';

/** A message that goes in a batch. */
export interface BatchItem {
  readonly claim: Claim;
  readonly body: Buffer;
  /** Whether it may still be posted. */
  readonly mayPost: () => boolean;
}

/** What became of one message: its part in an exchange and when that began, or why there was none. */
type BatchResult =
  | { readonly exchange: Exchange; readonly at: number; readonly denial: Denial | null }
  | { readonly skipped: SkipCause };

/** Bodies that wait for, or are in, requests with several messages, over all endpoints of a process. */
export interface BatchMemory {
  bytes: number;
}

/** What they may come to, in bytes; an endpoint that has nothing waiting gets its first message all the same. */
const MEMORY_LIMIT = 32 * 1024 * 1024;

/** The endpoint that the requests go to, with room for some of them at a time. */
interface Places {
  readonly window: Pick<Window, 'open' | 'begun'>;
  /** Waits for a place, or says why there is none. */
  enter(mayPost: () => boolean): Promise<SkipCause | null>;
  /** Gives a place back that was not used. */
  withdraw(): void;
}

export interface BatcherOptions {
  readonly clock: Clock;
  readonly outlet: Places;
  readonly memory: BatchMemory;
  /** Posts an envelope. */
  readonly post: (items: readonly BatchItem[]) => Promise<Exchange>;
  /** Counts an exchange in the endpoint's window; says whether it was a refusal that may be of everything. */
  readonly leave: (exchange: Exchange, begun: number, claim: Claim) => Denial | null;
  /** Called when there may be room for more. */
  readonly onRoom: () => void;
}

/** A message until its request is answered, or can't be made. It counts in the memory meanwhile. */
class Waiting implements BatchItem {
  readonly claim: Claim;
  readonly body: Buffer;
  readonly mayPost: () => boolean;
  private readonly memory: BatchMemory;
  private readonly resolve: (result: BatchResult) => void;
  private readonly reject: (error: unknown) => void;
  private hasEnded = false;

  constructor(
    { claim, body, mayPost }: BatchItem,
    memory: BatchMemory,
    resolve: Waiting['resolve'],
    reject: Waiting['reject'],
  ) {
    this.claim = claim;
    this.body = body;
    this.mayPost = mayPost;
    this.memory = memory;
    this.resolve = resolve;
    this.reject = reject;
    memory.bytes += body.length;
  }

  end(result: BatchResult): void {
    this.letGo();
    this.resolve(result);
  }

  fail(error: unknown): void {
    this.letGo();
    this.reject(error);
  }

  private letGo(): void {
    if (!this.hasEnded) this.memory.bytes -= this.body.length;
    this.hasEnded = true;
  }
}

/** Messages that gather for one request. */
interface Gathering {
  items: Waiting[];
  /** What the items take in an envelope. */
  bytes: number;
  /** Parts of batches that were split, each to be posted by itself. */
  parts: Waiting[][];
  /** Whether `wait` is over. */
  isDue: boolean;
  isSending: boolean;
  cancelTimer: (() => void) | null;
}

const gathering = (): Gathering => ({
  items: [],
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
  /** Messages in a request at most, now: it halves when a request fails and doubles when one succeeds. */
  private limit: number;
  private readonly firsts = gathering();
  private readonly retries = gathering();

  constructor(settings: BatchOptions, options: BatcherOptions) {
    this.settings = settings;
    this.limit = settings.size;
    this.options = options;
  }

  /** Takes changed settings. */
  configure(settings: BatchOptions): void {
    if (settings.size !== this.settings.size) this.limit = settings.size;
    this.settings = settings;
  }

  /** Messages that a request may hold now. An endpoint that is closed is probed with one. */
  get size(): number {
    return this.options.outlet.window.open ? this.limit : 1;
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

  /** Resolves once the message's request is answered, or can't be made. */
  add(item: BatchItem): Promise<BatchResult> {
    const into = item.claim.tries > 0 ? this.retries : this.firsts;
    return new Promise((resolve, reject) => {
      into.items.push(new Waiting(item, this.options.memory, resolve, reject));
      into.bytes += envelopeBytes(item.body.length, item.claim.id);
      this.look(into);
    });
  }

  /** Gives back what may not be posted any more; with `all`, whatever it is. */
  cut(all = false): void {
    const isKept = (item: Waiting) => {
      if (!all && item.mayPost()) return true;
      item.end({ skipped: 'cut' });
      return false;
    };
    for (const each of [this.firsts, this.retries]) {
      each.parts = each.parts.map((part) => part.filter(isKept)).filter((part) => part.length > 0);
      each.items = each.items.filter(isKept);
      each.bytes = bytesOf(each.items);
    }
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
    return from.isDue || from.items.length >= this.size || envelopeBytes() + from.bytes > BATCH_BYTES;
  }

  /** Posts what is ready, as fast as the window has places. It never rejects. */
  private async send(from: Gathering): Promise<void> {
    const { outlet } = this.options;
    from.isSending = true;
    while (this.isReady(from)) {
      const skipped = await outlet.enter(() => [...from.parts.flat(), ...from.items].some(({ mayPost }) => mayPost()));
      if (skipped !== null) {
        for (const item of [...from.parts.splice(0).flat(), ...from.items.splice(0)]) item.end({ skipped });
        from.bytes = 0;
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

  private next(from: Gathering): readonly Waiting[] {
    const part = from.parts.shift();
    if (part) return part;
    const items = from.items.splice(0, fitting(from.items, this.size));
    from.bytes -= bytesOf(items);
    from.cancelTimer?.();
    from.cancelTimer = null;
    from.isDue = false;
    return items;
  }

  private async post(items: readonly Waiting[], from: Gathering): Promise<void> {
    const { clock, outlet, post, onRoom } = this.options;
    const at = clock.now();
    const { begun } = outlet.window;
    let exchange: Exchange;
    try {
      exchange = await post(items);
    } catch (error) {
      outlet.withdraw();
      // One of them can't be made into a request: the others can.
      if (items.length > 1) this.split(items, from);
      else for (const item of items) item.fail(error);
      return;
    }
    try {
      this.answered(items, from, exchange, { at, begun });
      onRoom();
    } catch (error) {
      for (const item of items) item.fail(error);
    }
  }

  private answered(
    items: readonly Waiting[],
    from: Gathering,
    exchange: Exchange,
    { at, begun }: { at: number; begun: number },
  ): void {
    const [first] = items as readonly [Waiting, ...Waiting[]];
    const exchanges = readAnswer(exchange, items.length);
    // A handler that takes none of a whole batch says what a 5xx would say.
    const isTaken = exchanges.some(({ outcome }) => outcome !== 'retry');
    const denial = this.options.leave(isTaken ? exchange : (exchanges[0] ?? exchange), begun, first.claim);
    if (isTooMuch(exchange) && items.length > 1) this.split(items, from);
    else {
      this.adapt(exchange, items.length);
      for (const [index, item] of items.entries()) {
        item.end({ exchange: exchanges[index] ?? exchange, at, denial });
      }
    }
  }

  /** Halves, each to be posted by itself: down to one message, whose answer is then its own. */
  private split(items: readonly Waiting[], from: Gathering): void {
    const half = Math.ceil(items.length / 2);
    this.limit = Math.max(1, Math.min(this.limit, half));
    from.parts.push(items.slice(0, half), items.slice(half));
    this.look(from);
  }

  private adapt({ outcome, status }: Exchange, count: number): void {
    if (outcome === 'success') this.limit = Math.min(this.settings.size, this.limit * 2);
    else if (outcome === 'retry' && (status === null || status >= 500)) {
      this.limit = Math.max(1, Math.min(this.limit, Math.floor(count / 2)));
    }
  }
}

const count = ({ items, parts }: Gathering) => items.length + parts.reduce((sum, part) => sum + part.length, 0);

/** A body that the endpoint does not understand, or that is too large, may be one message's fault. */
const isTooMuch = ({ status }: Exchange) => status === 400 || status === 413;

/** What the items take in an envelope. */
const bytesOf = (items: readonly BatchItem[]) =>
  items.reduce((sum, { claim, body }) => sum + envelopeBytes(body.length, claim.id), 0);

/** How many of the first items go into one request: one at least, and `most` at most. */
function fitting(items: readonly BatchItem[], most: number): number {
  let bytes = envelopeBytes();
  let count = 0;
  for (const { claim, body } of items) {
    bytes += envelopeBytes(body.length, claim.id);
    if (count > 0 && (count >= most || bytes > BATCH_BYTES)) break;
    count += 1;
  }
  return count;
}
