import { type ClientClock, deadline } from './clock.ts';
import { textOf } from './errors.ts';
import type { RequestBody, ServiceAnswer, Transport } from './platform.ts';

/** Options that the client passes to `fetch`. */
export interface FetchInit {
  method: 'POST';
  headers: Record<string, string>;
  body: string;
  redirect: 'manual';
  signal: AbortSignal;
  keepalive?: boolean;
}

/** The parts of a `fetch` response that the client uses. */
export interface FetchAnswer {
  status: number;
  headers?: unknown;
  text?(): Promise<string>;
}

/** The subset of `fetch` that the client uses. */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchAnswer>;

export interface FetchSettings {
  url: string;
  headers: Record<string, string>;
  requestTimeout: number;
  clock: ClientClock;
  fetch: Fetch;
  /** True if the request should outlive its page. */
  keepalive?: (body: string) => boolean;
}

/** Longest answer that is read; 2,500 rejections fit. */
const MAX_ANSWER_LENGTH = 1024 * 1024;

/** Posts request bodies with `fetch`. */
export class FetchTransport implements Transport {
  readonly #settings: FetchSettings;
  #current: AbortController | undefined;

  constructor(settings: FetchSettings) {
    this.#settings = settings;
  }

  async post(body: RequestBody): Promise<ServiceAnswer> {
    const { clock, requestTimeout } = this.#settings;
    const abort = new AbortController();
    this.#current = abort;
    let answer: FetchAnswer | undefined;
    const ended = new Promise<ServiceAnswer>((resolve) => {
      abort.signal.addEventListener('abort', () => {
        resolve(answer ? known(answer, '') : { error: abort.signal.reason as Error });
      });
    });
    const giveUp = () => abort.abort(new Error(`no answer within ${requestTimeout} ms`));
    const stop = deadline(clock, requestTimeout, giveUp);
    const asked = this.#ask(typeof body === 'string' ? body : new TextDecoder().decode(body), abort, (head) => {
      answer = head;
    });
    // The host's own `fetch` may ignore the signal.
    const settled = await Promise.race([asked, ended]);
    stop();
    this.#current = undefined;
    return settled;
  }

  close(): void {
    this.#current?.abort(new Error('aborted'));
  }

  /** Never rejects. Once there is a status it decides, even if the rest of the answer is cut off. */
  async #ask(body: string, { signal }: AbortController, onHead: (head: FetchAnswer) => void): Promise<ServiceAnswer> {
    const { url, headers, fetch, keepalive } = this.#settings;
    try {
      const init: FetchInit = { method: 'POST', headers, body, redirect: 'manual', signal };
      const head = await fetch(url, keepalive?.(body) ? { ...init, keepalive: true } : init);
      onHead(head);
      const text = await head.text?.().catch(() => '');
      return known(head, text ?? '');
    } catch (error) {
      return { error: error instanceof Error ? error : new Error(textOf(error)) };
    }
  }
}

function known({ status, headers }: FetchAnswer, text: string): ServiceAnswer {
  return { status, retryAfter: retryAfterOf(headers), body: text.length <= MAX_ANSWER_LENGTH ? text : '' };
}

/** Reads a `Headers` or a plain object. */
function retryAfterOf(headers: unknown): string | undefined {
  if (typeof headers !== 'object' || headers === null) return undefined;
  const entries =
    'entries' in headers && typeof headers.entries === 'function'
      ? (headers.entries() as Iterable<[string, unknown]>)
      : Object.entries(headers);
  for (const [name, value] of entries) if (name.toLowerCase() === 'retry-after') return String(value);
  return undefined;
}
