import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Core, createCore } from './core.ts';
import { headerOf, readBody } from './incoming.ts';
import type { CoreOptions, Log, RequestHead } from './options.ts';
import { methodNotAllowed, type Reply, refusal, tooLarge } from './reply.ts';

/** Options of a receiver outside Fastify. */
export type StandaloneOptions = CoreOptions & {
  /** Where refusals and failures are told (default: the console). */
  log?: Log;
};

/** A receiver for any framework. */
export interface Receiver {
  /** For Hono, Next, Bun, Deno and others that speak `Request` and `Response`. Never rejects. */
  handle(request: Request): Promise<Response>;
  /** For `node:http` and Express. Mount it before anything that reads bodies. */
  node(request: IncomingMessage, response: ServerResponse): void;
  /** Answers 503 from now on and waits for the handlers. */
  close(): Promise<void>;
}

const consoleLog: Log = {
  warn: (fields, message) => console.warn(message, fields),
  error: (fields, message) => console.error(message, fields),
};

interface Incoming extends RequestHead {
  method: string | undefined;
  /** Throws {@link AlreadyRead} when something else took the body. */
  read(limit: number): Promise<Buffer | undefined>;
}

class AlreadyRead extends Error {
  override name = 'AlreadyRead';
  override message = 'the body was already read: mount the receiver before whatever parses bodies';
}

/** Reads all chunks, or gives up as soon as they are more than the limit. */
async function collect(chunks: AsyncIterable<Uint8Array>, limit: number): Promise<Buffer | undefined> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    size += chunk.length;
    if (size > limit) return undefined;
    parts.push(chunk);
  }
  return Buffer.concat(parts, size);
}

/** A host that has read the body already is our own failure, so that the sender comes again. */
function unreadable(error: unknown, log: Log): Reply {
  if (!(error instanceof AlreadyRead)) return refusal(400, 'body_unreadable', 'the body ended too early');
  log.error({ err: error }, 'webhook failed');
  return refusal(500, 'body_already_read', 'the receiver is not set up correctly');
}

async function receive(core: Core, incoming: Incoming, log: Log): Promise<Reply> {
  const since = core.now();
  if (incoming.method !== 'POST') return methodNotAllowed;
  const refused = core.verifier.head(incoming, log);
  if (refused !== undefined) return refused;
  let rawBody: Buffer | undefined;
  try {
    rawBody = await incoming.read(core.verifier.bodyLimit);
  } catch (error) {
    return unreadable(error, log);
  }
  if (rawBody === undefined) return tooLarge;
  const verified = await core.verifier.body(incoming, rawBody, log);
  if (!verified.ok) return verified.reply;
  const { key, secret } = verified;
  return core.accept({ rawBody, key, secret, url: incoming.url, since }, log);
}

const fromRequest = (request: Request): Incoming => ({
  method: request.method,
  url: request.url.replace(/^[a-z]+:\/\/[^/]*/i, ''),
  header: (name) => request.headers.get(name) ?? undefined,
  async read(limit) {
    if (request.bodyUsed) throw new AlreadyRead();
    return request.body === null ? Buffer.alloc(0) : collect(request.body, limit);
  },
});

const fromNode = (request: IncomingMessage & { body?: unknown; originalUrl?: string }): Incoming => ({
  method: request.method,
  url: request.originalUrl ?? request.url ?? '',
  header: (name) => headerOf(request.headers, name),
  async read(limit) {
    if (Buffer.isBuffer(request.body)) return request.body.length > limit ? undefined : request.body;
    if (request.readableEnded) throw new AlreadyRead();
    return new Promise((resolve, reject) => {
      readBody(request, limit, (error, body) => (error === undefined ? resolve(body) : reject(error)));
    });
  },
});

/**
 * A receiver outside Fastify.
 *
 * @throws TypeError when the secret is missing or empty.
 */
export function createReceiver(options: StandaloneOptions): Receiver {
  const core = createCore(options);
  const log = options.log ?? consoleLog;
  const resumed = core.resume(log).catch((error) => core.report(error, { stage: 'store' }, log));
  return {
    async handle(request) {
      const { status, headers, body } = await receive(core, fromRequest(request), log);
      return new Response(body, { status, headers });
    },
    node(request, response) {
      void receive(core, fromNode(request), log).then(({ status, headers, body }) => {
        response.writeHead(status, headers).end(body);
      });
    },
    async close() {
      await resumed;
      await core.close();
    },
  };
}
