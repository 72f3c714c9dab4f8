import type { Dispatcher } from 'undici';
import type { Clock } from '../kernel/clock.ts';
import { ATTEMPT_TIMEOUT, retryAfter } from '../kernel/retry.ts';
import type { Outcome } from '../store/port.ts';
import { classifyError, classifyStatus, TIMEOUT } from './classify.ts';
import { noteOf, RESPONSE_LIMIT, responseText, wholeText } from './response-text.ts';

/** The result of one POST to one endpoint. */
export interface Exchange {
  readonly outcome: Exclude<Outcome, 'skipped'>;
  readonly status: number | null;
  /** The cause of a failure; of a success `unhandled`, if the endpoint says that nothing handled the message. */
  readonly error: string | null;
  /** Start of a failed endpoint's response, after the target of a redirect. */
  readonly response: string | null;
  /** JSON answer to a successful batch; null if it could not be read whole, absent if there was none. */
  readonly answer?: string | null;
  /** Delay that the endpoint asked for, in milliseconds. */
  readonly retryAfter: number | null;
  /** Start of the attempt by wall and steady clock, and the time until its status (or failure) was known. */
  readonly at: number;
  readonly startedAt: number;
  readonly ms: number;
}

export interface PostRequest {
  readonly origin: string;
  readonly path: string;
  readonly headers: string[];
  readonly body: Buffer;
  /** Secrets to remove from a failed endpoint's response. */
  readonly secrets?: readonly string[];
  readonly readsAnswer?: boolean;
}

/** The largest chunk of a success, in bytes, that is searched for a note. */
const NOTE_LIMIT = 1024;

/**
 * Posts once. Calls `done` once, whatever the remote and the HTTP client do: a failure is a result, and five seconds
 * cover everything. It runs in the same pass of the event loop as the answer, so the next request can reuse the
 * connection.
 */
export function exchange(
  agent: Dispatcher,
  clock: Clock,
  request: PostRequest,
  done: (exchange: Exchange) => void,
): void {
  const { origin, path, headers, body, readsAnswer = false, secrets = [] } = request;
  const handler = new ExchangeHandler(clock, { readsAnswer, secrets }, done);
  try {
    agent.dispatch({ origin, path, headers, body, method: 'POST' }, handler);
  } catch (error) {
    handler.onResponseError(null, error);
  }
}

/** As {@link exchange}, but returns a promise, which never rejects. */
export function post(agent: Dispatcher, clock: Clock, request: PostRequest): Promise<Exchange> {
  return new Promise((resolve) => exchange(agent, clock, request, resolve));
}

class ExchangeHandler implements Dispatcher.DispatchHandler {
  private readonly clock: Clock;
  private readonly request: Required<Pick<PostRequest, 'readsAnswer' | 'secrets'>>;
  private readonly done: (exchange: Exchange) => void;
  private readonly at: number;
  private readonly startedAt: number;
  private readonly cancelTimer: () => void;
  private controller: Dispatcher.DispatchController | null = null;
  private finished = false;
  private status: number | null = null;
  private ms = 0;
  private retryAfter: number | null = null;
  private encoding: string | undefined;
  private location: string | undefined;
  private isJson = false;
  private isWhole = false;
  private readonly chunks: Buffer[] = [];
  private received = 0;
  private note: string | null = null;

  constructor(clock: Clock, request: ExchangeHandler['request'], done: (exchange: Exchange) => void) {
    this.clock = clock;
    this.request = request;
    this.done = done;
    this.at = clock.now();
    this.startedAt = clock.monotonic();
    this.cancelTimer = clock.after(ATTEMPT_TIMEOUT, () => this.cut());
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller;
    // The connection arrived too late: nothing may be sent any more. After a stopped process or a suspended machine
    // continues, the connection may be ready before the timer fires.
    const elapsed = Math.max(this.clock.monotonic() - this.startedAt, this.clock.now() - this.at);
    if (this.finished || elapsed >= ATTEMPT_TIMEOUT) this.cut();
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status < 200 || this.finished || this.status !== null) return;
    this.status = status;
    this.ms = this.clock.monotonic() - this.startedAt;
    const wait = single(headers['retry-after']);
    if (wait !== undefined) this.retryAfter = retryAfter(wait, single(headers['date']), this.clock.now());
    this.encoding = joined(headers['content-encoding']);
    this.location = status >= 300 && status < 400 ? single(headers['location']) : undefined;
    if (!this.request.readsAnswer) return;
    this.isJson = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(single(headers['content-type']) ?? '');
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.finished) return;
    this.received += chunk.length;
    if (this.keepsResponse()) this.chunks.push(chunk);
    else if (chunk.length <= NOTE_LIMIT && chunk.includes('"unhandled"')) this.note = noteOf(chunk);
    if (this.received > RESPONSE_LIMIT) this.cut();
  }

  onResponseEnd(): void {
    this.isWhole = this.received <= RESPONSE_LIMIT;
    this.finish(null);
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: unknown): void {
    this.finish(error);
  }

  /** Ends the exchange from our side; a known status stays. */
  private cut(): void {
    this.finish(this.status === null ? timeoutError() : null);
    try {
      this.controller?.abort(timeoutError());
    } catch {
      // The exchange is over either way, and a timer has no caller to notify.
    }
  }

  private finish(failure: unknown): void {
    if (this.finished) return;
    this.finished = true;
    this.cancelTimer();
    if (this.status === null) {
      const { outcome, error } = classifyError(failure ?? new Error('No response.'));
      const { at, startedAt } = this;
      const ms = this.clock.monotonic() - startedAt;
      this.end({ outcome, error, status: null, response: null, retryAfter: null, at, startedAt, ms });
      return;
    }
    const { status, retryAfter, at, startedAt, ms } = this;
    const { outcome, error } = classifyStatus(status);
    const result = { outcome, error: error ?? this.note, status, retryAfter, at, startedAt, ms };
    if (outcome === 'success' && this.keepsResponse()) {
      const text = this.isWhole ? wholeText(Buffer.concat(this.chunks), this.encoding) : Promise.resolve(null);
      void text.then((answer) => this.end({ ...result, response: null, answer }));
    } else if (!this.keepsResponse() || (this.chunks.length === 0 && !this.location)) {
      this.end({ ...result, response: null });
    } else {
      const head = this.location ? `Location: ${this.location}\n\n` : '';
      void responseText(Buffer.concat(this.chunks), this.encoding).then((text) =>
        this.end({ ...result, response: withoutSecrets(head + text, this.request.secrets).slice(0, RESPONSE_LIMIT) }),
      );
    }
  }

  /** The HTTP client would swallow an error thrown by the caller's code. */
  private end(exchange: Exchange): void {
    try {
      this.done(exchange);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  /** A successful endpoint's response is useless, unless it answers a batch. */
  private keepsResponse(): boolean {
    if (this.status === null) return false;
    return this.status < 200 || this.status >= 300 || (this.request.readsAnswer && this.isJson);
  }
}

/** An error page may show the request's headers. */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  return secrets.reduce((shown, secret) => shown.replaceAll(secret, '…'), text);
}

function timeoutError(): Error {
  return Object.assign(new Error(`No response within ${ATTEMPT_TIMEOUT} ms.`), { code: TIMEOUT });
}

function single(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}

/** Codings in several headers were applied one after the other. */
function joined(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header.join(',') : header;
}
