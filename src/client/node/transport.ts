import type { Agent, ClientRequest, IncomingMessage, RequestOptions, request } from 'node:http';
import { urlToHttpOptions } from 'node:url';
import { type ClientClock, deadline } from '../clock.ts';
import type { RequestBody, ServiceAnswer, Transport, TransportSettings } from '../platform.ts';
import { version } from '../version.ts';

// `import` of node:http reads all its exports, which loads the WebSocket of undici: 10 MB that we don't need.
const http = process.getBuiltinModule('node:http');
const https = process.getBuiltinModule('node:https');

/** Longest answer that is read, with its heads and framing; 2,500 rejections fit. */
const MAX_ANSWER_BYTES = 1024 * 1024;
/** We close idle connections before a typical server does: its close could cross our next request. */
const IDLE_TIMEOUT = 4_000;

/** Posts request bodies over one keep-alive connection. */
export class HttpTransport implements Transport {
  readonly #clock: ClientClock;
  readonly #timeout: number;
  readonly #agent: Agent;
  readonly #options: RequestOptions;
  readonly #request: typeof request;
  #current: ClientRequest | undefined;

  constructor(writeKey: string, settings: TransportSettings) {
    const { endpoint: url } = settings;
    this.#clock = settings.clock;
    this.#timeout = settings.requestTimeout;
    const { Agent, request } = url.protocol === 'https:' ? https : http;
    this.#request = request;
    this.#agent = new Agent({
      keepAlive: true,
      maxSockets: 1,
      timeout: IDLE_TIMEOUT,
      // Node gives an address of a name 250 ms, too little for a distant service.
      autoSelectFamilyAttemptTimeout: this.#timeout / 2,
    });
    this.#options = {
      ...urlToHttpOptions(url),
      auth: `${writeKey}:`,
      method: 'POST',
      agent: this.#agent,
      headers: { 'content-type': 'application/json', 'user-agent': `rollcall-client/${version}` },
    };
  }

  post(body: RequestBody): Promise<ServiceAnswer> {
    return new Promise((resolve) => {
      const request = this.#request(this.#options);
      this.#current = request;
      const giveUp = () => request.destroy(new Error(`no answer within ${this.#timeout} ms`));
      const stop = deadline(this.#clock, this.#timeout, giveUp);
      const settle = (answer: ServiceAnswer) => {
        stop();
        this.#current = undefined;
        resolve(answer);
      };
      // A request in flight does not keep the process alive: `flush`, `close` and the exit hook do, as long as they wait.
      request.on('socket', (socket) => {
        socket.unref();
        let bytes = 0;
        const count = (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes > MAX_ANSWER_BYTES) request.destroy(new Error('the answer is too long'));
        };
        socket.on('data', count);
        request.on('close', () => socket.off('data', count));
      });
      let answered = false;
      request.on('error', (error) => {
        if (!answered) settle({ error });
      });
      request.on('response', (response) => {
        answered = true;
        read(response, settle);
      });
      request.end(body);
    });
  }

  close(): void {
    this.#current?.destroy(new Error('aborted'));
    this.#agent.destroy();
  }
}

/** Reads an answer. Its status counts even if the rest is cut off. */
function read(response: IncomingMessage, settle: (answer: ServiceAnswer) => void): void {
  const chunks: Buffer[] = [];
  response.on('data', (chunk: Buffer) => chunks.push(chunk));
  response.on('error', () => {});
  response.on('close', () => {
    settle({
      status: response.statusCode ?? 0,
      retryAfter: response.headers['retry-after'],
      body: Buffer.concat(chunks).toString(),
    });
  });
}
