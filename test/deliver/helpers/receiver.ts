import { EventEmitter } from 'node:events';
import { createServer, type IncomingHttpHeaders, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';

export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
}

export type Answer = (response: ServerResponse, request: Received, index: number) => void;

export const status =
  (code: number, headers: Record<string, string> = {}): Answer =>
  (response) =>
    void response.writeHead(code, headers).end();

/** Says `moved` when a request has come to a receiver, or its attempt is over. */
export const answers = new EventEmitter().setMaxListeners(0);
const held = new Set<ServerResponse>();

/** Requests that receivers have, and do not answer yet. */
export function heldAnswers(): number {
  let count = 0;
  for (const response of held) if (!response.writableEnded) count += 1;
  return count;
}

/** An endpoint on loopback that keeps what it received, and answers as told. */
export class Receiver {
  readonly requests: Received[] = [];
  connections = 0;
  answer: Answer;
  readonly url: string;
  private readonly watchers: { readonly count: number; readonly resolve: () => void }[] = [];

  private constructor(url: string, answer: Answer) {
    this.url = url;
    this.answer = answer;
  }

  static async start(t: Test, answer: Answer = status(200)): Promise<Receiver> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const receiver = new Receiver(`http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, answer);
    server.on('connection', () => (receiver.connections += 1));
    server.on('request', receiver.listener);
    t.teardown(() => {
      server.closeAllConnections();
      return new Promise<void>((resolve) => void server.close(() => resolve()));
    });
    return receiver;
  }

  /** Bodies received, parsed. */
  get bodies(): Record<string, unknown>[] {
    return this.requests.map(({ body }) => JSON.parse(body.toString('utf8')));
  }

  /** Resolves once so many requests have arrived in all. */
  async received(count: number): Promise<void> {
    if (this.requests.length >= count) return;
    await new Promise<void>((resolve) => this.watchers.push({ count, resolve }));
  }

  private readonly listener: RequestListener = (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers, rawHeaders } = request;
      const received = { method, path: url, headers, rawHeaders, body: Buffer.concat(chunks) };
      this.requests.push(received);
      this.answer(response, received, this.requests.length - 1);
      held.add(response);
      response.once('close', () => held.delete(response));
      answers.emit('moved');
      for (const { count, resolve } of this.watchers) if (this.requests.length >= count) resolve();
    });
  };
}

/** An answer whose body never ends; `cut` resolves once the other side has had enough. */
export function endless(code: number): { readonly answer: Answer; readonly cut: Promise<void> } {
  const { promise: cut, resolve } = Promise.withResolvers<void>();
  const answer: Answer = (response) => {
    response.writeHead(code);
    const more = () => {
      while (!response.destroyed && response.write('x'.repeat(10_000)));
      response.once('drain', more);
    };
    response.once('close', () => resolve());
    more();
  };
  return { answer, cut };
}
