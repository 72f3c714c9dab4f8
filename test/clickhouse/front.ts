import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

/** A question of the front to chdb. */
interface ChdbSession {
  query(sql: string, format?: string): string;
  queryAsync(sql: string, options: { readonly format: string }): Promise<{ text(): string }>;
  close(): void;
}

/** ClickHouse as it runs within this process, behind as much of its HTTP interface as the client speaks. */
export interface Front {
  readonly url: string;
  /** A new database; the URL that has it as the default one. */
  database(): Promise<string>;
  /** Runs SQL without the way over HTTP. */
  run(sql: string): string;
  /** Requests over HTTP, the newest last. */
  readonly requests: { readonly sql: string; readonly parameters: URLSearchParams }[];
  /** Holds the next request back whose SQL is this. */
  hold(isThis: (sql: string) => boolean): { readonly reached: Promise<void>; release(): void };
  stop(): Promise<void>;
}

interface Chdb {
  readonly Session: new (folder: string) => ChdbSession;
}

/** Installed by `npm run test:clickhouse` only. */
const PACKAGE = 'chdb';

const PASSWORD = 'right';

/** Who answers, as a server knows it: chdb knows no users. */
function isAllowed({ headers }: IncomingMessage): boolean {
  const given = Buffer.from(headers.authorization?.replace('Basic ', '') ?? '', 'base64').toString();
  return given === `rollcall:${PASSWORD}`;
}

export async function startFront({ readOnly = false } = {}): Promise<Front> {
  const { Session } = (await import(PACKAGE)) as Chdb;
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-chdb-'));
  // Each has its own settings, and all see the same tables. One at a time is used for a request.
  const idle: ChdbSession[] = [];
  const all: ChdbSession[] = [];
  const admin = open();
  const requests: Front['requests'] = [];
  let databases = 0;
  let held: { readonly isThis: (sql: string) => boolean; reach(): void; readonly released: Promise<void> } | null =
    null;

  function open(): ChdbSession {
    const session = new Session(folder);
    all.push(session);
    return session;
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const sql = await text(request);
    const parameters = new URL(request.url ?? '/', 'http://front').searchParams;
    requests.push({ sql, parameters });
    if (!isAllowed(request))
      return fail(response, 403, '516', 'rollcall: Authentication failed. (AUTHENTICATION_FAILED)');
    if (held?.isThis(sql)) {
      const { reach, released } = held;
      held = null;
      reach();
      await released;
    }
    const session = idle.pop() ?? open();
    try {
      const rights = readOnly ? 'SET readonly = 2; ' : '';
      const result = await session.queryAsync(`${settings(parameters)}${rights}${named(sql, parameters)}`, {
        format: 'TabSeparated',
      });
      response.setHeader('x-clickhouse-query-id', parameters.get('query_id') ?? '');
      response.end(result.text());
    } catch (error) {
      const { message } = error as Error;
      const code = /Code: (\d+)/.exec(message)?.[1] ?? '0';
      fail(response, 500, code, message.slice(message.indexOf('DB::Exception: ') + 'DB::Exception: '.length));
    } finally {
      idle.push(session);
    }
  }

  const server = createServer((request, response) => {
    answer(request, response).catch((error: Error) => response.destroy(error));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const url = `http://rollcall:${PASSWORD}@127.0.0.1:${port}`;
  return {
    url,
    requests,
    run: (sql) => admin.query(sql, 'TabSeparated'),
    async database() {
      databases += 1;
      admin.query(`CREATE DATABASE test_${databases}`);
      return `${url}/test_${databases}`;
    },
    hold(isThis) {
      const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      held = { isThis, reach: reached.resolve, released: released.promise };
      return { reached: reached.promise, release: released.resolve };
    },
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
      for (const session of all) session.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Parameters that are no settings. */
const OTHERS = new Set([
  'query_id',
  'database',
  'default_format',
  'session_id',
  'enable_http_compression',
  'wait_end_of_query',
]);

function settings(parameters: URLSearchParams): string {
  const database = parameters.get('database') ?? 'default';
  const set = [...parameters].filter(([name]) => !OTHERS.has(name)).map(([name, value]) => `SET ${name} = '${value}';`);
  return `USE ${database}; ${set.join(' ')}`;
}

/** chdb gives a query its id itself: ours goes along within a comment, and who is to be killed is known by it. */
function named(sql: string, parameters: URLSearchParams): string {
  const killed = /^KILL QUERY WHERE query_id = ('[^']*') ASYNC/.exec(sql)?.[1];
  if (killed) return `KILL QUERY WHERE position(query, concat('/* id ', ${killed}, ' */')) > 0 ASYNC`;
  return `/* id ${parameters.get('query_id')} */ ${sql}`;
}

function fail(response: ServerResponse, status: number, code: string, message: string): void {
  response.statusCode = status;
  response.setHeader('x-clickhouse-exception-code', code);
  response.end(`Code: ${code}. DB::Exception: ${message} (version 26.7.2.1)`);
}
