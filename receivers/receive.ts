import type { ServerResponse } from 'node:http';
import type { Core } from './core/core.ts';
import * as reply from './core/reply.ts';
import { AlreadyRead, HungUp, type ReadDeadline, TooSlow } from './incoming.ts';
import type { Log, RequestHead } from './options.ts';
import { joined } from './parse/bytes.ts';
import type { Trusted } from './verify/verifier.ts';

/** A request as an edge provides it. */
export interface Incoming extends RequestHead {
  method: string | undefined;
  /** Throws {@link AlreadyRead} when something else read the body, {@link TooSlow} at the deadline. */
  read(limit: number, deadline: ReadDeadline): Promise<Buffer | undefined>;
}

const consoleLog: Log = {
  warn: (fields, message) => console.warn(message, fields),
  error: (fields, message) => console.error(message, fields),
};

/** Wraps the host's log, so that its failures, immediate or late, affect neither an answer nor the process. */
export function logOf({ log = consoleLog }: { log?: Log }): Log {
  const safely =
    (level: keyof Log): Log[typeof level] =>
    async (fields, message) => {
      try {
        await log[level](fields, message);
      } catch {
        // There is nowhere left to report it.
      }
    };
  return { warn: safely('warn'), error: safely('error') };
}

/** Verified bytes, or the answer to a request that can't be trusted. */
export type CheckedRequest = ({ rawBody: Buffer } & Trusted) | { ok: false; reply: reply.Reply };

type Checker = Pick<Core, 'verifier' | 'reading' | 'isClosing' | 'report'>;

/** Checks the head, reads the body and verifies it. */
export async function check(core: Checker, incoming: Incoming, since: number, log: Log): Promise<CheckedRequest> {
  const { verifier } = core;
  const no = (answer: reply.Reply) => ({ ok: false, reply: answer }) as const;
  if (incoming.method !== 'POST') return no(reply.methodNotAllowed);
  const refused = verifier.head(incoming, log);
  if (refused !== undefined) return no(refused);
  let rawBody: Buffer | undefined;
  try {
    rawBody = await incoming.read(verifier.bodyLimit, (cut) => core.reading(since, cut));
  } catch (error) {
    const answer = reply.unreadable(error);
    if (answer.status === 500) core.report(error, { stage: 'host' }, log);
    return no(core.isClosing() ? reply.closing : answer);
  }
  if (rawBody === undefined) return no(reply.tooLarge);
  const verified = await verifier.body(incoming, rawBody, log);
  return verified.ok ? { ...verified, rawBody } : verified;
}

/** Answers a request. Never fails. */
export async function receive(core: Core, incoming: () => Incoming, log: Log): Promise<reply.Reply> {
  try {
    const since = core.now();
    const request = incoming();
    const checked = await check(core, request, since, log);
    if (!checked.ok) return checked.reply;
    const { rawBody, key, others, secret, sender } = checked;
    const verified = { rawBody, key, others, secret, sender, url: request.url, since };
    return await new Promise((answered) => core.accept(verified, log, answered));
  } catch (error) {
    core.report(error, { stage: 'host' }, log);
    return reply.crashed;
  }
}

/** @throws TypeError for anything but a `Request` */
export function fromRequest(request: Request): Incoming {
  if (typeof request?.headers?.get !== 'function') {
    throw new TypeError(
      'this takes a Request: in Express and node:http mount hooks.node, in Hono give context.req.raw',
    );
  }
  return {
    method: request.method,
    url: request.url.replace(/^[a-z]+:\/\/[^/]*/i, ''),
    header: (name) => request.headers.get(name) ?? undefined,
    async read(limit, deadline) {
      if (request.bodyUsed || request.body?.locked) throw new AlreadyRead();
      if (request.body === null) return joined([], 0);
      try {
        return await collect(request.body, limit, deadline);
      } catch (error) {
        throw request.signal?.aborted ? new HungUp() : error;
      }
    },
  };
}

const isNodeResponse = (given: unknown): given is ServerResponse =>
  typeof (given as Partial<ServerResponse> | undefined)?.writeHead === 'function';

/**
 * Answers one request of a host that uses `Request` and `Response`.
 *
 * @param beside - the host's second argument
 */
export async function respond(core: Core, request: Request, log: Log, beside?: unknown): Promise<Response> {
  const { status, headers, body } = await receive(core, () => fromRequest(request), log);
  // Mounted in place of `node`: such a host ignores the Response, and its client would wait for ever.
  if (isNodeResponse(beside) && !beside.headersSent) beside.writeHead(status, headers).end(body);
  return new Response(body, { status, headers });
}

/** Reads all chunks. Gives up as soon as they exceed the limit. */
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
  const cancel = deadline(() => {
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
    cancel();
  }
  if (late) throw new TooSlow();
  return joined(parts, size);
}
