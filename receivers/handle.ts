import type { IncomingMessage, ServerResponse } from 'node:http';
import { createCore } from './core/core.ts';
import type * as reply from './core/reply.ts';
import { headerOf, readBody } from './incoming.ts';
import type { CoreOptions, Log } from './options.ts';
import { type Incoming, logOf, receive, respond } from './receive.ts';
import { nodeSignatures } from './verify/node-signatures.ts';

/** Options of a receiver outside Fastify. */
export type StandaloneOptions = CoreOptions & {
  /** The log of refusals and failures (default: the console). */
  log?: Log;
};

/** A receiver for any framework. */
export interface Receiver {
  /** For Hono, Next, Bun, Deno and others that use `Request` and `Response`. Never rejects. */
  handle(request: Request): Promise<Response>;
  /**
   * For `node:http` and Express. Mount it before anything that reads bodies, or give it `request.rawBody`.
   * It never throws, whatever the host has done to the request or the response before.
   */
  node(request: IncomingMessage, response: ServerResponse): void;
  /** Answers 503 from now on and waits for the handlers. */
  close(): Promise<void>;
}

/** A request with additions of hosts: Express adds its parsed body, function platforms the bytes. */
type HostRequest = IncomingMessage & { body?: unknown; rawBody?: unknown; originalUrl?: string };

/** Accepts text as well as bytes, as long as it is what was signed. */
function bytesIn(given: unknown): Buffer | undefined {
  if (typeof given === 'string') return Buffer.from(given);
  return given instanceof Uint8Array ? Buffer.from(given.buffer, given.byteOffset, given.byteLength) : undefined;
}

/** @throws TypeError for a request of a framework: it has no body to read, and its deadline would find no stream */
function fromNode(request: HostRequest): Incoming {
  if (typeof request?.on !== 'function') {
    throw new TypeError(
      'hooks.node takes what node:http has: context.req and context.res in Koa; Fastify has a plugin',
    );
  }
  return {
    method: request.method,
    url: request.originalUrl ?? request.url ?? '',
    header: (name) => headerOf(request.headers, name),
    async read(limit, deadline) {
      const given = bytesIn(request.rawBody) ?? (typeof request.body === 'string' ? undefined : bytesIn(request.body));
      if (given !== undefined) return given.length > limit ? undefined : given;
      return new Promise((resolve, reject) => {
        readBody(request, limit, deadline, (error, body) => (error === undefined ? resolve(body) : reject(error)));
      });
    },
  };
}

/** May be a response of Fastify, which would wait for ever for its own `send`. */
type HostResponse = ServerResponse & { raw?: ServerResponse };

/** Writes an answer, unless the host has answered: a late write would end the process of most hosts. */
function answer(given: HostResponse, { status, headers, body }: reply.Reply): void {
  const { raw: response = given } = given;
  if (response.headersSent || response.writableEnded) throw new Error('the host has answered the webhook itself');
  // The sender hung up. Anyone can do that, so it is not an error.
  if (response.destroyed) return;
  // Not chained: `writeHead` of some hosts returns nothing.
  response.writeHead(status, headers);
  response.end(body);
}

/**
 * A receiver outside Fastify.
 *
 * @throws TypeError when the secret is missing or empty.
 */
export function createReceiver(options: StandaloneOptions): Receiver {
  const core = createCore(options, nodeSignatures);
  const log = logOf(options);
  const resumed = core.resume(log).catch((error) => core.report(error, { stage: 'store' }, log));
  return {
    handle: (request: Request, beside?: unknown) => respond(core, request, log, beside),
    node(request, response) {
      receive(core, () => fromNode(request), log)
        .then((given) => answer(response, given))
        .catch((error) => core.report(error, { stage: 'host' }, log));
    },
    async close() {
      await resumed;
      await core.close();
    },
  };
}
