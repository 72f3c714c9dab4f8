import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';
import { freePort } from '../helpers/free-port.ts';

/** One request as the service got it; answered by the test. */
export interface Received {
  path: string;
  headers: http.IncomingHttpHeaders;
  bytes: number;
  batch: Record<string, unknown>[];
  body: Record<string, unknown>;
  reply(status: number, body?: unknown, headers?: Record<string, string>): void;
  /** Sends a status and part of a body, then breaks the connection. */
  cut(status: number): void;
  /** Sends a status and part of a body, then nothing more. */
  stall(status: number): void;
  /** Breaks the connection without an answer. */
  reset(): void;
}

export const success = { success: true };

/** The certificate of services that speak TLS, signed by itself, and its key. */
export const tls = {
  cert: new URL('./fixtures/tls.cert', import.meta.url),
  key: new URL('./fixtures/tls.key', import.meta.url),
};

/** A real collection service on loopback. `answer` sees every request; without it all get 200. */
export async function service(
  t: Test,
  answer: (request: Received, n: number) => void = (r) => r.reply(200, success),
  scheme: 'http' | 'https' = 'http',
) {
  const requests: Received[] = [];
  const waiting: { n: number; resolve: (request: Received) => void }[] = [];
  let connections = 0;
  const listener: http.RequestListener = async (request, response) => {
    const received = await receive(request, response);
    const n = requests.push(received) - 1;
    for (const { resolve } of waiting.filter((w) => w.n === n)) resolve(received);
    answer(received, n);
  };
  const server =
    scheme === 'http'
      ? http.createServer(listener)
      : https.createServer({ cert: readFileSync(tls.cert), key: readFileSync(tls.key) }, listener);
  server.on('connection', () => connections++);
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  t.teardown(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return {
    endpoint: `${scheme}://127.0.0.1:${port}`,
    requests,
    connections: () => connections,
    /** The request number n, once it is here. */
    request: (n: number): Promise<Received> =>
      new Promise((resolve) => {
        const here = requests[n];
        if (here) resolve(here);
        else waiting.push({ n, resolve });
      }),
    /** Events of all requests, in the order of arrival. */
    events: () => requests.flatMap(({ batch }) => batch.map((m) => m['event'])),
  };
}

async function receive(request: http.IncomingMessage, response: http.ServerResponse): Promise<Received> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const raw = Buffer.concat(chunks);
  const body = JSON.parse(raw.toString());
  return {
    path: request.url ?? '',
    headers: request.headers,
    bytes: raw.length,
    batch: body.batch,
    body,
    reply(status, answer = {}, headers = {}) {
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(JSON.stringify(answer));
    },
    cut(status) {
      response.writeHead(status, { 'content-length': '100' });
      response.write('{"success"', () => response.destroy());
    },
    stall(status) {
      response.writeHead(status, { 'content-length': '100' });
      response.write('{"success"');
    },
    reset: () => request.socket.resetAndDestroy(),
  };
}

/** An address where nothing listens. */
export async function deadEndpoint(): Promise<string> {
  return `http://127.0.0.1:${await freePort()}`;
}
