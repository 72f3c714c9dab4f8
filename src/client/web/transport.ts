import { type Fetch, type FetchInit, FetchTransport } from '../fetch.ts';
import type { RequestBody, ServiceAnswer, TransportSettings } from '../platform.ts';
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

  override async post(body: RequestBody): Promise<ServiceAnswer> {
    this.#bytesUnderWay = typeof body === 'string' ? byteLength(body) : body.length;
    const answer = await super.post(body);
    this.#bytesUnderWay = 0;
    this.#isPlainNext = 'error' in answer && !this.#isPlainNext;
    return answer;
  }

  /** Gives the browser what it still takes. Nobody will be there to hear of the answer. */
  handOver(messages: Record<string, unknown>[]): number {
    const { endpoint, clock } = this.#settings;
    const now = clock.now();
    const batch = new TextBatch(now, this.#writeKey, MAX_KEPT_BYTES - this.#bytesUnderWay);
    for (const message of messages) {
      const text = JSON.stringify(message);
      if (!batch.add(text, byteLength(text) + SEPARATOR.length)) break;
    }
    if (batch.count === 0) return 0;
    const body = batch.body(new Date(now).toISOString());
    const init = { method: 'POST', headers, body, keepalive: true } as const satisfies Partial<FetchInit>;
    fetch(endpoint.href, init).catch(() => {});
    return batch.count;
  }
}
