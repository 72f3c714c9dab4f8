import { type Fetch, type FetchInit, FetchTransport } from '../fetch.ts';
import type { Answer, Body, TransportSettings } from '../platform.ts';
import { SEPARATOR } from '../queue.ts';
import { byteLength, TextBatch } from './batch.ts';
import { isPage } from './page.ts';

/** All that browsers let outlive a page is 64 KiB at a time; requests that other scripts make count as well. */
const MAX_KEPT_BYTES = 64_000;
/** Largest body in a page, so that each outlives it; in workers and on the edge the usual one. */
export const MAX_PAGE_BYTES = 60_000;

/** As text, which needs no leave of another origin. */
const headers = { 'content-type': 'text/plain' };

const send: Fetch = (url, init) => fetch(url, init);

/** Posts by the `fetch` of the place; in a page, so that what is under way outlives it. */
export class WebTransport extends FetchTransport {
  readonly #writeKey: string;
  readonly #settings: TransportSettings;
  #bytesUnderWay = 0;
  /** The browser may have had no room left for a request that outlives the page: the next one is a plain one. */
  #isPlainNext = false;

  constructor(writeKey: string, settings: TransportSettings) {
    const { endpoint, clock, requestTimeout } = settings;
    const keepalive = () => isPage && !this.#isPlainNext;
    super({ url: endpoint.href, headers, requestTimeout, clock, fetch: send, keepalive });
    this.#writeKey = writeKey;
    this.#settings = settings;
  }

  override async post(body: Body): Promise<Answer> {
    this.#bytesUnderWay = typeof body === 'string' ? byteLength(body) : body.length;
    const answer = await super.post(body);
    this.#bytesUnderWay = 0;
    this.#isPlainNext = 'error' in answer && !this.#isPlainNext;
    return answer;
  }

  /** Gives the browser what it still takes. Nobody will be there to hear of the answer. */
  handOver(messages: Record<string, unknown>[]): number {
    let taken = 0;
    let room = MAX_KEPT_BYTES - this.#bytesUnderWay;
    // Other scripts may have used up some of it, which only a refusal shows.
    for (;;) {
      const batch = this.#firstOf(messages, taken, room);
      if (batch.count === 0) break;
      if (this.#keep(batch)) {
        taken += batch.count;
        room -= batch.bytes;
      } else room = Math.floor(batch.bytes / 2);
    }
    return taken;
  }

  /** As many messages as there is room for. */
  #firstOf(messages: Record<string, unknown>[], from: number, room: number): TextBatch {
    const batch = new TextBatch(this.#settings.clock.now(), this.#writeKey, room);
    for (let index = from; index < messages.length; index++) {
      const text = JSON.stringify(messages[index]);
      if (!batch.add(text, byteLength(text) + SEPARATOR.length)) break;
    }
    return batch;
  }

  /** @returns false where the browser says that it has no room */
  #keep(batch: TextBatch): boolean {
    const { endpoint } = this.#settings;
    const body = batch.body(new Date(batch.since).toISOString());
    const { navigator } = globalThis as { navigator?: { sendBeacon?(url: string, body: string): boolean } };
    if (navigator?.sendBeacon) return navigator.sendBeacon(endpoint.href, body);
    const init = { method: 'POST', headers, body, keepalive: true } as const satisfies Partial<FetchInit>;
    fetch(endpoint.href, init).catch(() => {});
    return true;
  }
}
