import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import type { Test } from 'tap';

/** Answers each request with these parts, one write for each, until the client hangs up. */
export async function answering(
  t: Test,
  parts: () => Iterable<string | Buffer>,
  make = createServer as () => Server,
): Promise<{ connections: number; url: string }> {
  const state = { connections: 0, url: '' };
  const server = make();
  server.on(make === createServer ? 'connection' : 'secureConnection', (socket: Socket) => {
    state.connections += 1;
    socket.setNoDelay(true);
    socket.on('error', () => {}).on('data', () => void write(socket, parts()));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  state.url = `127.0.0.1:${(server.address() as { port: number }).port}`;
  return state;
}

/** Writes these parts one after the other, until the client hangs up. */
export async function write(socket: Socket, parts: Iterable<string | Buffer>): Promise<void> {
  for (const part of parts) {
    if (socket.destroyed) return;
    await new Promise((resolve) => socket.write(part, resolve));
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const CHUNKED = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';

/** Answers without an end: the status that counts, the beginning, and what is repeated. */
export const ENDLESS: Readonly<Record<string, readonly [status: number | null, first: string, more: string]>> = {
  '100 Continue': [null, '', 'HTTP/1.1 100 Continue\r\n\r\n'],
  '103 Early Hints': [null, '', 'HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n'],
  'headers of an interim answer': [null, 'HTTP/1.1 103 Early Hints\r\n', 'a: b\r\n'],
  'blank lines before the status': [null, '', '\r\n'],
  'a reason': [null, 'HTTP/1.1 200 ', 'x'],
  'headers after the status': [null, 'HTTP/1.1 200 OK\r\n', 'a: b\r\n'],
  'spaces in a header': [null, 'HTTP/1.1 200 OK\r\na:', ' '],
  'chunk extensions': [200, CHUNKED, '1;aaaaaaaaaaaaaaaaaaaa\r\nx\r\n'],
  'one chunk extension': [200, `${CHUNKED}1;a=`, 'b'],
  'zeros before a chunk size': [200, CHUNKED, '0'],
  trailers: [200, `${CHUNKED}0\r\n`, 'a: b\r\n'],
  'spaces in a trailer': [200, `${CHUNKED}0\r\na:`, ' '],
};

export function* endlessly(first: string, more: string): Generator<string> {
  yield first;
  for (;;) yield more.repeat(4_000);
}
