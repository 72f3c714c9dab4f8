import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { order } from '../bodies.ts';

/** Digits that make the ids of each request new. */
const DIGITS = 9;

export interface LoadResult {
  readonly seconds: number;
  /** Milliseconds from the first byte sent to the whole answer, one per request. */
  readonly latencies: readonly number[];
}

/** The requests of a load, and the number of its connections. */
export interface Requests {
  /** Messages in each; one message is a single call. */
  readonly messages: number;
  readonly connections: number;
  /** Size of a message. */
  readonly kb: number;
}

/** A batch as Segment's Node library sends it, with room for a number in each messageId. */
function template({ messages, kb }: Requests): { readonly request: Buffer; readonly places: readonly number[] } {
  const mark = '#'.repeat(DIGITS);
  const batch = Array.from({ length: messages }, (_, index) =>
    order(kb, {
      type: 'track',
      integrations: {},
      userId: `user-${index}`,
      messageId: `node-next-${mark}-e2d0-470a-9825-${String(index).padStart(5, '0')}`,
      _metadata: { nodeVersion: 'v24.21.0', jsRuntime: 'node' },
    }),
  );
  const sentAt = '2026-11-21T02:29:37.016Z';
  const body = JSON.stringify(messages === 1 ? { ...batch[0], sentAt } : { batch, writeKey: 'WK', sentAt });
  const request = Buffer.from(
    `POST /v1/${messages === 1 ? 'track' : 'batch'} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\nauthorization: Basic V0s6\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  const places: number[] = [];
  for (let at = request.indexOf(mark); at !== -1; at = request.indexOf(mark, at + DIGITS)) places.push(at);
  return { request, places };
}

/**
 * Sends this many requests over keep-alive connections, one at a time on each. Bare sockets, because an HTTP client costs
 * as much as the servers that are measured here.
 *
 * @param first - number of the first request; no two may be the same for one server
 */
export async function load(port: number, first: number, count: number, requests: Requests) {
  const { connections } = requests;
  const sockets = Array.from({ length: connections }, () => connect({ port, host: '127.0.0.1', noDelay: true }));
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  const latencies: number[] = [];
  let sent = 0;
  const next = () => (sent < count ? first + sent++ : null);
  const start = performance.now();
  await Promise.all(sockets.map((socket) => drive(socket, template(requests), next, latencies)));
  const seconds = (performance.now() - start) / 1000;
  for (const socket of sockets) socket.destroy();
  return { seconds, latencies } satisfies LoadResult;
}

function drive(
  socket: Socket,
  { request, places }: ReturnType<typeof template>,
  next: () => number | null,
  latencies: number[],
): Promise<void> {
  return new Promise((resolve, reject) => {
    let startedAt = 0;
    const send = () => {
      const number = next();
      if (number === null) return resolve();
      const digits = String(number).padStart(DIGITS, '0');
      for (const place of places) request.write(digits, place, 'latin1');
      startedAt = performance.now();
      socket.write(request);
    };
    let answer = '';
    socket.setEncoding('latin1').on('error', reject);
    socket.on('data', (chunk: string) => {
      answer += chunk;
      if (!answer.endsWith('}')) return;
      if (!answer.startsWith('HTTP/1.1 200 ') || !answer.endsWith('{"success":true}')) {
        return reject(new Error(`unexpected answer: ${answer}`));
      }
      answer = '';
      latencies.push(performance.now() - startedAt);
      send();
    });
    send();
  });
}
