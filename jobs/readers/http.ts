import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { Agent, type Dispatcher, request } from 'undici';
import { RollcallError } from '../../src/kernel/errors.ts';

/** The most bytes of an answer. Servers divide results into pages of some megabytes. */
const LARGEST = 256 * 1024 * 1024;
/** Milliseconds. No answer waits longer than 10 s for its query. */
const TIMEOUT = 60_000;
/** A server or a proxy that is busy for the moment. */
const BUSY = new Set([429, 502, 503, 504]);
const TRIES = 8;

export interface RestRequest {
  /** With its query, below the origin. */
  readonly path: string;
  readonly method?: 'GET' | 'POST' | 'DELETE';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal | undefined;
}

/** A database that is asked over HTTP, at one origin only: whatever an answer names, credentials go nowhere else. */
interface Rest {
  /** Resolves to the status and the whole JSON of an answer. Tries again while the server is busy. */
  ask(asked: RestRequest): Promise<{ readonly status: number; readonly body: unknown }>;
  /** An error about the server itself. */
  unreachable(why: string, cause?: unknown): RollcallError;
  close(): Promise<void>;
}

/** @param name - of the database, for errors */
export function openRest(url: string, name: string): Rest {
  const { origin, host } = new URL(url);
  const agent = new Agent({
    connect: { timeout: 10_000 },
    headersTimeout: TIMEOUT,
    bodyTimeout: TIMEOUT,
    maxResponseSize: LARGEST,
  });
  const unreachable = (why: string, cause?: unknown) =>
    new RollcallError('engine_unreachable', `Can't work with ${name} at ${host}: ${why}.`, { cause });

  async function once({ path, method = 'GET', headers = {}, body, signal }: RestRequest) {
    try {
      const all = { accept: 'application/json', 'accept-encoding': 'gzip', 'user-agent': 'rollcall', ...headers };
      const answer = await request(`${origin}${path}`, {
        dispatcher: agent,
        method,
        headers: all,
        body: body ?? null,
        signal: signal ?? null,
      });
      return { status: answer.statusCode, text: await textOf(answer) };
    } catch (error) {
      signal?.throwIfAborted();
      const { message, code = '' } = error as NodeJS.ErrnoException;
      throw unreachable(message || code, error);
    }
  }

  async function ask(asked: RestRequest) {
    for (let tries = 1; ; tries += 1) {
      const { status, text } = await once(asked);
      if (BUSY.has(status) && tries < TRIES) {
        await wait(Math.min(100 * 2 ** tries, 5_000), null, { signal: asked.signal ?? undefined }).catch(() => {});
        asked.signal?.throwIfAborted();
        continue;
      }
      const body = parsed(text);
      if (body !== undefined && (status < 300 || status >= 400)) return { status, body };
      if (status >= 400) throw unreachable(`HTTP ${status} ${isPage(text) ? '' : text.slice(0, 200)}`.trim());
      throw unreachable(`what answers is not ${name}. Is a proxy in between?`);
    }
  }

  return { ask, unreachable, close: () => agent.destroy() };
}

async function textOf({ headers, body }: Dispatcher.ResponseData): Promise<string> {
  const bytes = Buffer.from(await body.arrayBuffer());
  if (headers['content-encoding'] !== 'gzip') return bytes.toString();
  return (await promisify(gunzip)(bytes, { maxOutputLength: LARGEST })).toString();
}

const isPage = (text: string) => text.trimStart().startsWith('<');

/** A number that would lose digits stays text. */
const HUGE = /[[,:]-?\d{16}/;

function parsed(text: string): unknown {
  try {
    if (!HUGE.test(text)) return JSON.parse(text);
    return JSON.parse(text, (_key, value, { source }: { source?: string } = {}) =>
      typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(source ?? '') ? source : value,
    );
  } catch {
    return undefined;
  }
}
