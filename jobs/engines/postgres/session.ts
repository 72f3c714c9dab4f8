import pg from 'pg';
import { RollcallError } from '../../../src/kernel/errors.ts';
import {
  beginWith,
  connectionTo,
  ownsSession,
  PLAIN,
  type SessionSettings,
} from '../../../src/store/postgres-session.ts';
import type { SqlSession } from '../sql/session.ts';
import { createCanceller } from './cancel.ts';
import { type CopiedLines, copyOut } from './copy-out.ts';
import { valueType } from './dialect.ts';

/** Codes of a connection that broke or was refused, by Node and by Postgres. */
const UNREACHABLE = /^(ECONN|ENOTFOUND|EHOSTUNREACH|ETIMEDOUT|EPIPE|08|57P0|53300|28|3D000)/;
/** Disk or memory full, cancelled from outside, or a lock that nobody gave: failures that other SQL would not fix. */
const NOT_ITS_FAULT = /^(53[12]|57014|55P03|40P01)/;
const CONNECT_TIMEOUT = 10_000;
const BATCH = 5_000;
/** Milliseconds after our own time limit, for statements whose process is gone or stalled. */
const GRACE = 30_000;
const SETTINGS: SessionSettings = {
  TimeZone: 'UTC',
  extra_float_digits: 0,
  client_min_messages: 'warning',
  // Runs share tables: of concurrent serializable transactions, only one would succeed.
  default_transaction_isolation: 'read committed',
  ...PLAIN,
  IntervalStyle: 'postgres',
  // A session waits while changes are sent.
  idle_in_transaction_session_timeout: 0,
  quote_all_identifiers: 'off',
};
/** Settings that older servers lack. The first makes the server notice soon that our process is gone. */
const OPTIONAL: SessionSettings = {
  client_connection_check_interval: '10s',
  idle_session_timeout: 0,
  transaction_timeout: 0,
};
/** Searched last, so that tables of the same names take precedence. */
const SEE_EVENTS = "SELECT current_setting('search_path') || ', rollcall_events' AS path";
const NO_TRANSACTION = /^VACUUM\b/;

interface SessionOptions {
  /** Milliseconds that a statement may take. */
  readonly timeout?: number | undefined;
  /** True if the views of the event log are visible. */
  readonly seesEvents?: boolean;
  /** True if nothing may be written, whatever the role may do. */
  readonly readsOnly?: boolean;
}

export interface PostgresSession extends SqlSession {
  readonly isPooled: boolean;
  /** True once the server or the network has ended it. */
  isOver(): boolean;
  /** The rows of a query as lines of `COPY`, in batches. */
  copy(query: string): AsyncGenerator<CopiedLines>;
}

/**
 * Connects to the customer's database. Behind a pooler, each transaction applies the settings, as it may get any session.
 *
 * @throws RollcallError `engine_unreachable`
 */
export async function openSession(url: string, options: SessionOptions = {}): Promise<PostgresSession> {
  const host = URL.parse(url)?.host ?? 'the database';
  const { client, config, settings, isOwn } = await guarded(host, () => connect(url, options));
  let isOver = false;
  /** The reason why the server ended the connection between two statements, which the next one reports. */
  let ending = '';
  client.on('error', ({ message }) => {
    ending ||= message;
  });
  client.on('end', () => {
    isOver = true;
  });
  const mode = options.readsOnly ? 'ISOLATION LEVEL READ COMMITTED READ ONLY' : undefined;
  const interrupt = createCanceller(client, isOwn ? config : null);
  const begin = isOwn ? 'BEGIN' : beginWith(settings, mode);
  let isInTransaction = false;

  const ask = (text: string, values: unknown[] = []) =>
    guarded(
      host,
      () => client.query<unknown[]>({ text, values, rowMode: 'array' }),
      () => ending,
    );
  async function edge(statement: string): Promise<void> {
    await guarded(
      host,
      () => client.query(statement === 'BEGIN' ? begin : statement),
      () => ending,
    );
    isInTransaction = statement === 'BEGIN';
  }
  /** Wraps a statement outside transactions in one of its own if it needs the settings. */
  async function query(text: string, values?: unknown[]) {
    if (isOwn || isInTransaction) return ask(text, values);
    await edge('BEGIN');
    try {
      const result = await ask(text, values);
      await edge('COMMIT');
      return result;
    } catch (error) {
      await edge('ROLLBACK').catch(() => {});
      throw error;
    }
  }
  return {
    isPooled: !isOwn,
    isOver: () => isOver,
    rows: async (sql, texts) => (await query(sql, texts ? [texts] : [])).rows,
    async byColumn(sql) {
      const { rows, fields } = await query(sql);
      return fields.map((_, column) => rows.map((row) => row[column]));
    },
    stream: (sql) => fetched(sql, query, edge),
    async *copy(query) {
      if (!isOwn) await edge('BEGIN');
      const rows = copyOut(client, `COPY (\n${query}\n) TO STDOUT`, interrupt);
      try {
        for (;;) {
          const { value, done } = await guarded(
            host,
            () => rows.next(),
            () => ending,
          );
          if (done) break;
          yield value;
        }
      } finally {
        await rows.return(undefined);
        if (!isOwn) await edge('ROLLBACK').catch(() => {});
      }
    },
    async run(sql) {
      if (/^(BEGIN|COMMIT|ROLLBACK)$/.test(sql)) {
        await edge(sql);
        return 0;
      }
      return (await (NO_TRANSACTION.test(sql) ? ask(sql) : query(sql))).rowCount ?? 0;
    },
    async columns(sql) {
      const { fields } = await query(sql);
      const types = await query(TYPE_NAMES, [fields.map(({ dataTypeID }) => dataTypeID)]);
      const names = new Map(types.rows.map(([oid, name]) => [Number(oid), String(name)]));
      return fields.map(({ name, dataTypeID, dataTypeModifier }) => {
        const type = names.get(dataTypeID) ?? 'unknown';
        return { name, ...valueType(type === 'numeric' ? `numeric${precisionOf(dataTypeModifier)}` : type) };
      });
    },
    interrupt,
    // `end` never resolves once the connection is over.
    close: async () => (isOver ? undefined : client.end()),
  };
}

/** The precision and scale of a numeric column, if it has them. */
function precisionOf(modifier: number): string {
  const declared = modifier - 4;
  return declared < 0 ? '' : `(${declared >> 16},${declared & 0x7ff})`;
}

/** Rows of a query, by column, in batches. The cursor lives in a transaction. */
async function* fetched(
  sql: string,
  query: (sql: string) => Promise<pg.QueryArrayResult<unknown[]>>,
  edge: (statement: string) => Promise<void>,
): AsyncGenerator<unknown[][]> {
  await edge('BEGIN');
  try {
    await query(`DECLARE rollcall_rows NO SCROLL CURSOR FOR ${sql}`);
    for (;;) {
      const { rows, fields } = await query(`FETCH ${BATCH} FROM rollcall_rows`);
      if (rows.length === 0) return;
      yield fields.map((_, column) => rows.map((row) => row[column]));
    }
  } finally {
    await edge('ROLLBACK').catch(() => {});
  }
}

/** Names of types by their ids; for a domain, that of its base type. */
const TYPE_NAMES = `
  SELECT asked.oid, CASE WHEN base.typtype = 'e' THEN 'enum' ELSE format_type(base.oid, NULL) END
  FROM pg_type AS asked JOIN pg_type AS base ON base.oid = coalesce(nullif(asked.typbasetype, 0), asked.oid)
  WHERE asked.oid = ANY($1::oid[])`;

async function connect(url: string, { timeout, seesEvents = false, readsOnly = false }: SessionOptions) {
  const limit = timeout === undefined ? {} : { statement_timeout: Math.min(timeout + GRACE, 2 ** 31 - 1) };
  const reading = readsOnly ? { default_transaction_read_only: 'on' } : {};
  const { config, settings: wanted } = connectionTo(url, { ...SETTINGS, ...limit, ...reading });
  const client = new pg.Client({
    ...config,
    application_name: 'rollcall',
    connectionTimeoutMillis: CONNECT_TIMEOUT,
    keepAlive: true,
  });
  // Without a listener, a connection that breaks would end the process.
  client.on('error', () => {});
  await client.connect();
  try {
    const settings = { ...wanted, ...(await moreSettings(client, seesEvents)) };
    return { client, config, settings, isOwn: await ownsSession(client, settings) };
  } catch (error) {
    // Not awaited: it never resolves once the connection is over.
    void client.end().catch(() => {});
    throw error;
  }
}

/** Optional settings, as far as this server knows them. */
async function moreSettings(client: pg.Client, seesEvents: boolean): Promise<SessionSettings> {
  const known: Record<string, string | number> = {};
  for (const [name, value] of Object.entries(OPTIONAL)) {
    await client.query(beginWith({ [name]: value })).then(
      () => {
        known[name] = value;
      },
      () => {},
    );
    await client.query('ROLLBACK');
  }
  const path = seesEvents ? await client.query<{ path: string }>(SEE_EVENTS) : null;
  return { ...known, ...(path ? { search_path: path.rows[0]?.path ?? '' } : {}) };
}

async function guarded<T>(host: string, work: () => Promise<T>, ending = () => ''): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { code = '', message } = error as { code?: string; message: string };
    if (NOT_ITS_FAULT.test(code)) throw new RollcallError('engine_failed', message, { cause: error });
    const isDriver = !(error instanceof pg.DatabaseError);
    const isBroken = UNREACHABLE.test(code) || (isDriver && /terminated|timeout expired|not queryable/.test(message));
    if (!isBroken) throw error;
    throw new RollcallError(
      'engine_unreachable',
      `Can't work with Postgres at ${host}: ${ending() || message || code}.`,
      {
        cause: error,
      },
    );
  }
}
