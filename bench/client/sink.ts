/** A collection service that answers at once and counts when asked, so that it holds nobody up. */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';

export interface SinkResult {
  /** Different messages that arrived. */
  messages: number;
  /** Messages that arrived again. */
  duplicates: number;
  /** When the last request was here, milliseconds since 1970. */
  last: number;
}

const bodies: { bytes: Buffer; gzip: boolean }[] = [];
let last = 0;

const server = http.createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    bodies.push({ bytes: Buffer.concat(chunks), gzip: request.headers['content-encoding'] === 'gzip' });
    last = Date.now();
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end('{"success":true}');
  });
});

process.on('message', () => {
  const seen = new Set<string>();
  let duplicates = 0;
  for (const { bytes, gzip } of bodies) {
    for (const { messageId } of JSON.parse((gzip ? gunzipSync(bytes) : bytes).toString()).batch) {
      if (seen.has(messageId)) duplicates++;
      seen.add(messageId);
    }
  }
  process.send?.({ messages: seen.size, duplicates, last } satisfies SinkResult);
});

server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
