import { type Fetch, type FetchInit, FetchTransport } from '../fetch.ts';
import type { RequestBody, ServiceAnswer, TransportSettings } from '../platform.ts';
import { SEPARATOR } from '../queue.ts';
import { byteLength, TextBatch } from './batch.ts';
import { isPage } from './page.ts';

/** Browsers let 64 KiB of requests outlive a page; requests of other scripts count as well. */
const MAX_KEPT_BYTES = 64_000;
/** Largest body in a page, so that each outlives it. Workers and the edge have the general limit. */
export const MAX_PAGE_BYTES = 60_000;

/** Sent as text, which needs no preflight. */
const headers = { 'content-type': 'text/plain' };

const send: Fetch = (url, init) => fetch(url, init);

/** Posts with the platform's `fetch`. In a page, requests in flight outlive it. */
export class WebTransport extends FetchTransport {
  readonly #writeKey: string;
  readonly #settings: TransportSettings;
  #bytesUnderWay = 0;
  /** True after a failure: the browser may have had no room for a request that outlives the page. */
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

  /** Hands the browser as much as it still accepts. Nobody will be left to read the answer. */
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
