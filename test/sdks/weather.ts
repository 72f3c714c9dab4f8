import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { request } from 'undici';
import { errorBody, statusOf } from '../../src/http/errors.ts';
import type { ErrorCode } from '../../src/kernel/errors.ts';

/** The fate of the first request: an answer of Rollcall's with this code, one of a proxy before it, or none at all. */
export type Trouble = ErrorCode | 'too large for a proxy' | 'connection lost' | 'answer lost';

export interface Weather {
  readonly url: string;
  /** The message ids of each request. */
  readonly requests: readonly (readonly string[])[];
  close(): Promise<void>;
}

/** Stands between a client and Rollcall, and gives the first request trouble. */
export async function startWeather(target: string, trouble: Trouble): Promise<Weather> {
  const requests: string[][] = [];
  const server = createServer(async (incoming, outgoing) => {
    const body = await buffer(incoming);
    const first = requests.length === 0;
    requests.push(messageIds(incoming, body));
    if (first && trouble === 'connection lost') return void incoming.socket.destroy();
    if (first && trouble === 'too large for a proxy') return void outgoing.writeHead(413).end('Payload Too Large');
    if (first && trouble !== 'answer lost') return refuse(outgoing, trouble as ErrorCode);
    const { host, connection, 'transfer-encoding': _, ...headers } = incoming.headers;
    const answer = await request(`${target}${incoming.url}`, { method: 'POST', headers, body });
    const text = await answer.body.text();
    if (first) return void incoming.socket.destroy();
    outgoing.writeHead(answer.statusCode, { 'content-type': 'application/json' }).end(text);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

function refuse(outgoing: ServerResponse, code: ErrorCode): void {
  const status = statusOf(code);
  const headers = { 'content-type': 'application/json', ...(status >= 429 && { 'retry-after': '1' }) };
  outgoing.writeHead(status, headers).end(JSON.stringify(errorBody(code, 'For the test.')));
}

function messageIds({ headers }: IncomingMessage, body: Buffer): string[] {
  const json = headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
  return JSON.parse(json.toString()).batch.map(({ messageId }: { messageId: string }) => messageId);
}
