import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';

/** Each name with all its values. */
export type Headed = readonly (readonly [name: string, values: string[]])[];

/** A request as function platforms have it: whole, before any code of the function runs. */
export interface Given {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  /** Repeated values joined by a comma. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly all: Headed;
  readonly body: Buffer;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly body: string | Uint8Array;
}

/** The least that a platform takes: a load balancer's functions. */
const LIMIT = 1024 * 1024;

/** Serves one function. Like the platforms, it answers 413 to what they don't hand over, and 502 for a function that fails. */
export function serveFunction(call: (given: Given) => Promise<Answer>): void {
  createServer(async (request, response) => {
    try {
      if (Number(request.headers['content-length'] ?? 0) > LIMIT) return void response.writeHead(413).end();
      const body = await buffer(request);
      const { pathname, search } = new URL(request.url ?? '/', 'http://localhost');
      const all = Object.entries(request.headersDistinct).map(([name, values = []]) => [name, values] as const);
      const headers = Object.fromEntries(all.map(([name, values]) => [name, values.join(',')]));
      const given = { method: request.method ?? '', path: pathname, query: search.slice(1), headers, all, body };
      const answer = await call(given);
      response.writeHead(answer.status, answer.headers as Record<string, string>).end(answer.body);
    } catch (error) {
      console.error(error);
      response.writeHead(502).end();
    }
  }).listen(Number(process.env['PORT']), '127.0.0.1');
}
