import { readFile } from 'node:fs/promises';
import { findPackageJSON } from 'node:module';
import type { ClickhouseConfig } from '../../../src/config/config.ts';
import { RollcallError } from '../../../src/kernel/errors.ts';
import { interruptedBy } from '../insist.ts';
import { loadPeer } from '../peer-package.ts';
import { literal } from './types.ts';

/** The part of `@clickhouse/client` that is used. Users of such an engine install it themselves. */
interface ClickhouseClient {
  query(request: Request & { readonly format: 'JSONCompactEachRow' }): Promise<{
    stream(): AsyncIterable<readonly { readonly text: string }[]> & { destroy(): void };
  }>;
  command(request: Request): Promise<unknown>;
  close(): Promise<void>;
}

interface Request {
  readonly query: string;
  readonly query_id?: string;
  readonly clickhouse_settings: Readonly<Record<string, string | number | boolean>>;
}

interface Package {
  createClient(options: object): ClickhouseClient;
}

const PACKAGE = '@clickhouse/client';
/** Older ones accept an INSERT that failed after its first progress, and reject answers that take 20 minutes. */
const OLDEST = [1, 21] as const;
/** Milliseconds after our own time limit, for statements whose process is gone or stalled. */
const GRACE = 30_000;
/** Milliseconds that a statement other than a definition may take. */
const STATEMENT = 600_000;

/** At a limit, or without a shard, profiles may allow partial results, which would make the missing users leave. */
const WHOLE_OR_NOTHING = {
  read_overflow_mode: 'throw',
  read_overflow_mode_leaf: 'throw',
  group_by_overflow_mode: 'throw',
  sort_overflow_mode: 'throw',
  result_overflow_mode: 'throw',
  timeout_overflow_mode: 'throw',
  timeout_overflow_mode_leaf: 'throw',
  set_overflow_mode: 'throw',
  join_overflow_mode: 'throw',
  transfer_overflow_mode: 'throw',
  distinct_overflow_mode: 'throw',
  skip_unavailable_shards: 0,
  limit: '0',
  offset: '0',
} as const;

/** Settings that every statement of ours relies on, whatever the user's profile says. */
const SETTINGS = {
  session_timezone: 'UTC',
  // A write that failed must not take effect later.
  async_insert: 0,
  mutations_sync: 2,
  lightweight_deletes_sync: 2,
  max_query_size: 64 * 1024 * 1024,
  output_format_json_quote_64bit_integers: 1,
  output_format_json_quote_decimals: 0,
  // Our tables have keys that are never null, a count of nothing is 0, and columns are listed without subcolumns.
  data_type_default_nullable: 0,
  empty_result_for_aggregation_by_empty_set: 0,
  describe_include_subcolumns: 0,
  // Proxies close connections that are idle for long.
  send_progress_in_http_headers: 1,
  // Servers from 23.9 to 25.10 would write a late error as an additional row.
  http_write_exception_in_output_format: 0,
  ...WHOLE_OR_NOTHING,
} as const;

/** Milliseconds between two progress headers. */
const PROGRESS = 20_000;
/** Node drops headers beyond 2,000, and the one that reports a failed query is the last. */
const PROGRESS_HEADERS = 1_000;

export interface ClickHouse {
  /** The database of our tables, quoted for SQL. */
  readonly database: string;
  rows(sql: string, signal?: AbortSignal): Promise<unknown[][]>;
  stream(sql: string, signal?: AbortSignal): AsyncGenerator<unknown[][]>;
  run(sql: string, signal?: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

interface SessionOptions {
  readonly folder: string;
  readonly timeout?: number | undefined;
  /** Kills statements that have no signal of their own. */
  readonly signal?: AbortSignal | undefined;
  /** Makes ids of queries. */
  readonly token: () => string;
}

/** @throws RollcallError `engine_unreachable` if the client is not installed */
export async function openSession(config: ClickhouseConfig, options: SessionOptions): Promise<ClickHouse> {
  const { createClient } = (await loadPeer(PACKAGE, {
    folder: options.folder,
    type: 'clickhouse',
    check: refuseOld,
  })) as Package;
  const { url, settings, database } = config;
  const longest = Math.max(options.timeout ?? 0, STATEMENT) + GRACE;
  const client = createClient({
    url,
    application: 'rollcall',
    // The server cancels it first.
    request_timeout: Math.min(longest + GRACE, 2 ** 31 - 1),
    max_response_headers_size: PROGRESS_HEADERS * 1_024,
    log: { level: 127 },
  });
  const limit = options.timeout === undefined ? STATEMENT : options.timeout + GRACE;
  const clickhouse_settings = {
    max_execution_time: Math.ceil(limit / 1_000),
    ...settings,
    ...SETTINGS,
    http_headers_progress_interval_ms: String(Math.max(PROGRESS, Math.ceil(longest / PROGRESS_HEADERS))),
  };
  const host = URL.parse(url)?.host ?? 'the server';

  async function kill(id: string): Promise<void> {
    const query = `KILL QUERY WHERE query_id = ${literal(id)} ASYNC`;
    await client.command({ query, clickhouse_settings: {} }).catch(() => {});
  }

  /** Kills a statement by its id once the signal aborts, whatever its state. */
  async function killable<T>(
    signal = options.signal,
    work: (id: string) => Promise<T>,
    id = `rollcall-${options.token()}`,
  ): Promise<T> {
    const told = () =>
      work(id).catch((error) => {
        throw meaningOf(error, host);
      });
    return signal ? interruptedBy(signal, () => void kill(id), told) : told();
  }

  const format = 'JSONCompactEachRow';
  return {
    database: `\`${database}\``,
    rows: (query, signal) =>
      killable(signal, async (query_id) => {
        const result = await client.query({ query, query_id, format, clickhouse_settings });
        const rows: unknown[][] = [];
        for await (const batch of result.stream()) rows.push(...batch.map(toRow));
        return rows;
      }),
    async *stream(query, signal) {
      const query_id = `rollcall-${options.token()}`;
      const until = <T>(work: () => Promise<T>) => killable(signal, work, query_id);
      const result = await until(() => client.query({ query, query_id, format, clickhouse_settings }));
      const rows = result.stream();
      const reading = rows[Symbol.asyncIterator]();
      let isWhole = false;
      try {
        for (;;) {
          const { value, done } = await until(async () => {
            const { value: batch, done = false } = await reading.next();
            return { value: done ? [] : batch.map(toRow), done };
          });
          if (value.length > 0) yield value;
          if (done) break;
        }
        isWhole = true;
      } finally {
        rows.destroy();
        // The server doesn't notice that nobody reads it.
        if (!isWhole) await kill(query_id);
      }
    },
    run: (query, signal) =>
      killable(signal, async (query_id) => void (await client.command({ query, query_id, clickhouse_settings }))),
    close: () => client.close(),
  };
}

/** A late error as servers before 25.11 write it: the last line of the answer. */
const LATE_ERROR = /^Code: (?<code>\d+)\. DB::\w*Exception: (?<message>.*?)\((?<type>[A-Z_]{3,})\)/;

function toRow({ text }: { readonly text: string }): unknown[] {
  try {
    return JSON.parse(text) as unknown[];
  } catch {
    const { message = text, ...of } = LATE_ERROR.exec(text)?.groups ?? {};
    throw Object.assign(new Error(message), of);
  }
}

async function refuseOld(place: string): Promise<void> {
  const { version } = JSON.parse(await readFile(findPackageJSON(PACKAGE, place) ?? '', 'utf8')) as { version: string };
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return;
  throw new RollcallError(
    'engine_unreachable',
    `${PACKAGE} is ${version}, which takes some failed statements for done. Install ${OLDEST.join('.')} or newer: npm install ${PACKAGE}@latest`,
  );
}

/** Codes of ClickHouse for a connection that can't work: user, password, database, network. */
const UNREACHABLE = new Set(['81', '192', '193', '194', '516', '209', '210', '279']);
/** Full, busy, read only or stopped: failures that other SQL would not fix. */
const NOT_ITS_FAULT = new Set([
  '159',
  '160',
  '164',
  '202',
  '241',
  '242',
  '243',
  '252',
  '394',
  '439',
  '452',
  '497',
  '999',
]);
const LEAVE_SETTINGS = ' Rollcall sets its time zone and limits: use a profile with readonly = 2, or without it.';
const HINTS: ReadonlyMap<string, string> = new Map([
  ['159', ' See timeout of the audience.'],
  ['164', LEAVE_SETTINGS],
  ['452', LEAVE_SETTINGS],
  ['241', ' Give it more, or let it spill, by `settings` of the engine: docs/engines.md.'],
  ['497', ' Grant it: docs/engines.md.'],
]);

function meaningOf(error: unknown, host: string): unknown {
  if (error instanceof RollcallError || !(error instanceof Error)) return error;
  const { code = '', type } = error as Error & { code?: string; type?: string };
  // The client removes the type's name from the end, but leaves the full stop and the space before it.
  const message = (error.message.split('\n')[0] ?? '').replace(/[.\s]+$/, '');
  if (type !== undefined && NOT_ITS_FAULT.has(code)) {
    return new RollcallError('engine_failed', `${message}.${HINTS.get(code) ?? ''}`, { cause: error });
  }
  // Errors of ClickHouse have a type; all others are of the connection.
  if (type !== undefined && !UNREACHABLE.has(code)) return error;
  const said = message || code;
  // A redirect has no text, and a proxy sends a page.
  const why =
    said === '' || said.startsWith('<') ? 'what answers is not ClickHouse. Is a proxy in between?' : `${said}.`;
  return new RollcallError('engine_unreachable', `Can't work with ClickHouse at ${host}: ${why}`, { cause: error });
}

/** Codes of ClickHouse for files that end too early. */
const INCOMPLETE = new Set(['3', '32', '33', '271', '272', '561', '636']);
const INCOMPLETE_FILE = /Not a Parquet file|file is not a parquet|magic bytes|end of data|unexpected end of|truncated/i;

/** True if a file that the definition reads is half written or cut off. */
export function isIncomplete(error: unknown): boolean {
  const { code = '', message = '' } = error as { code?: string; message?: string };
  return INCOMPLETE.has(code) || INCOMPLETE_FILE.test(message);
}
