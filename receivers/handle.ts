import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Core, createCore } from './core.ts';
import { AlreadyRead, headerOf, type ReadDeadline, readBody, TooSlow } from './incoming.ts';
import type { CoreOptions, Log, RequestHead } from './options.ts';
import * as reply from './reply.ts';

/** Options of a receiver outside Fastify. */
export type StandaloneOptions = CoreOptions & {
  /** Where refusals and failures are told (default: the console). */
  log?: Log;
};

/** A receiver for any framework. */
export interface Receiver {
  /** For Hono, Next, Bun, Deno and others that speak `Request` and `Response`. Never rejects. */
  handle(request: Request): Promise<Response>;
  /**
   * For `node:http` and Express. Mount it before anything that reads bodies, or give it `request.rawBody`.
   * It never throws, whatever the host has done to the request or the response before.
   */
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
  /** Throws {@link AlreadyRead} when something else took the body, {@link TooSlow} at the deadline. */
  read(limit: number, deadline: ReadDeadline): Promise<Buffer | undefined>;
}

/** Reads all chunks, or gives up as soon as they are more than the limit. */
async function collect(
  stream: ReadableStream<Uint8Array>,
  limit: number,
  deadline: ReadDeadline,
): Promise<Buffer | undefined> {
  const reader = stream.getReader();
  const parts: Uint8Array[] = [];
  let size = 0;
  let late = false;
  const give = () => void reader.cancel().catch(() => {});
  const arrived = deadline(() => {
    late = true;
    give();
  });
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      size += part.value.length;
      if (size > limit) {
        give();
        return undefined;
      }
      parts.push(part.value);
    }
  } finally {
    arrived();
  }
  if (late) throw new TooSlow();
  return Buffer.concat(parts, size);
}

async function receive(core: Core, incoming: Incoming, log: Log): Promise<reply.Reply> {
  const since = core.now();
  if (incoming.method !== 'POST') return reply.methodNotAllowed;
  const refused = core.verifier.head(incoming, log);
  if (refused !== undefined) return refused;
  let rawBody: Buffer | undefined;
  try {
    rawBody = await incoming.read(core.verifier.bodyLimit, (cut) => core.reading(since, cut));
  } catch (error) {
    if (error instanceof AlreadyRead) core.report(error, { stage: 'host' }, log);
    return core.isClosing() ? reply.closing : reply.unreadable(error);
  }
  if (rawBody === undefined) return reply.tooLarge;
  const verified = await core.verifier.body(incoming, rawBody, log);
  if (!verified.ok) return verified.reply;
  const { key, secret, sender } = verified;
  return core.accept({ rawBody, key, secret, sender, url: incoming.url, since }, log);
}

const fromRequest = (request: Request): Incoming => ({
  method: request.method,
  url: request.url.replace(/^[a-z]+:\/\/[^/]*/i, ''),
  header: (name) => request.headers.get(name) ?? undefined,
  async read(limit, deadline) {
    if (request.bodyUsed || request.body?.locked) throw new AlreadyRead();
    return request.body === null ? Buffer.alloc(0) : collect(request.body, limit, deadline);
  },
});

/** What hosts add to a request: Express its parsed body, function platforms the bytes. */
type HostRequest = IncomingMessage & { body?: unknown; rawBody?: unknown; originalUrl?: string };

const fromNode = (request: HostRequest): Incoming => ({
  method: request.method,
  url: request.originalUrl ?? request.url ?? '',
  header: (name) => headerOf(request.headers, name),
  async read(limit, deadline) {
    const given = [request.rawBody, request.body].find((body) => Buffer.isBuffer(body));
    if (given !== undefined) return given.length > limit ? undefined : given;
    return new Promise((resolve, reject) => {
      readBody(request, limit, deadline, (error, body) => (error === undefined ? resolve(body) : reject(error)));
    });
  },
});

/** Writes an answer, unless the host has given one: a late write would end the process of most hosts. */
function answer(response: ServerResponse, { status, headers, body }: reply.Reply): boolean {
  if (response.headersSent || response.writableEnded || response.destroyed) return false;
  // Not chained: the responses of some hosts return nothing here.
  response.writeHead(status, headers);
  response.end(body);
  return true;
}

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
      const { status, headers, body } = await receive(core, fromRequest(request), log).catch((error) => {
        core.report(error, { stage: 'host' }, log);
        return reply.crashed;
      });
      return new Response(body, { status, headers });
    },
    node(request, response) {
      receive(core, fromNode(request), log)
        .catch((error) => {
          core.report(error, { stage: 'host' }, log);
          return reply.crashed;
        })
        .then((given) => {
          if (!answer(response, given)) throw new Error('the host has answered the webhook itself, or hung up');
        })
        .catch((error) => core.report(error, { stage: 'host' }, log));
    },
    async close() {
      await resumed;
      await core.close();
    },
  };
}
