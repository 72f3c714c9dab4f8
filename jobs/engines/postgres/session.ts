import pg from 'pg';
import { RollcallError } from '../../../src/errors.ts';
import type { Session } from '../sql/session.ts';
import { createCanceller } from './cancel.ts';
import { valueType } from './dialect.ts';

/** Codes of a connection that broke or was refused, by Node and by Postgres. */
const UNREACHABLE = /^(ECONN|ENOTFOUND|EHOSTUNREACH|ETIMEDOUT|EPIPE|08|57P0|53300|28|3D000)/;
/** Disk or memory full, or cancelled from outside: what no other SQL would cure. */
const NOT_ITS_FAULT = /^(53[12]|57014)/;
const CONNECT_TIMEOUT = 10_000;
/** Rows of a long result fetched at once. */
const BATCH = 5_000;
/** Our own clock comes first: this is for statements whose process is gone or stalled. */
const GRACE = 30_000;
/** How soon the server notices that the process that asked is gone, where it can. */
const NOTICE_DEATH = `SET client_connection_check_interval = '10s'`;

/**
 * Connects to the customer's database.
 *
 * @param timeout - milliseconds that a statement may take
 * @throws RollcallError `engine_unreachable`
 */
export async function openSession(url: string, timeout?: number): Promise<Session> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'rollcall',
    connectionTimeoutMillis: CONNECT_TIMEOUT,
    keepAlive: true,
    ...(timeout === undefined ? {} : { statement_timeout: Math.min(timeout + GRACE, 2 ** 31 - 1) }),
  });
  // A connection that breaks between two statements is told by the next one.
  client.on('error', () => {});
  let isOver = false;
  client.on('end', () => {
    isOver = true;
  });
  const host = URL.parse(url)?.host ?? 'the database';
  await guarded(host, () => client.connect());
  await client.query("SET TIME ZONE 'UTC'; SET extra_float_digits = 0; SET client_min_messages = warning");
  await client.query(NOTICE_DEATH).catch(() => {});
  const pid = Number((await client.query('SELECT pg_backend_pid() AS pid')).rows[0].pid);

  const query = (text: string, values: unknown[] = []) =>
    guarded(host, () => client.query<unknown[]>({ text, values, rowMode: 'array' }));
  return {
    rows: async (sql, texts) => (await query(sql, texts ? [texts] : [])).rows,
    async byColumn(sql) {
      const { rows, fields } = await query(sql);
      return fields.map((_, column) => rows.map((row) => row[column]));
    },
    async *stream(sql) {
      await query('BEGIN');
      try {
        await query(`DECLARE rollcall_rows NO SCROLL CURSOR FOR ${sql}`);
        for (;;) {
          const { rows, fields } = await query(`FETCH ${BATCH} FROM rollcall_rows`);
          if (rows.length === 0) return;
          yield fields.map((_, column) => rows.map((row) => row[column]));
        }
      } finally {
        await query('ROLLBACK').catch(() => {});
      }
    },
    run: async (sql) => (await query(sql)).rowCount ?? 0,
    async columns(sql) {
      const { fields } = await query(sql);
      const types = await query(
        `SELECT asked.oid, CASE WHEN base.typtype = 'e' THEN 'enum' ELSE format_type(base.oid, NULL) END
         FROM pg_type AS asked JOIN pg_type AS base ON base.oid = coalesce(nullif(asked.typbasetype, 0), asked.oid)
         WHERE asked.oid = ANY($1::oid[])`,
        [fields.map(({ dataTypeID }) => dataTypeID)],
      );
      const names = new Map(types.rows.map(([oid, name]) => [Number(oid), String(name)]));
      return fields.map(({ name, dataTypeID }) => ({ name, ...valueType(names.get(dataTypeID) ?? 'unknown') }));
    },
    interrupt: createCanceller(client, url, pid),
    // `end` never resolves once the connection is over.
    close: async () => (isOver ? undefined : client.end()),
  };
}

async function guarded<T>(host: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { code = '', message } = error as { code?: string; message: string };
    if (NOT_ITS_FAULT.test(code)) throw new RollcallError('engine_failed', message, { cause: error });
    const isBroken = UNREACHABLE.test(code) || /terminated|timeout expired|not queryable/.test(message);
    if (!isBroken) throw error;
    throw new RollcallError('engine_unreachable', `Can't work with Postgres at ${host}: ${message || code}.`, {
      cause: error,
    });
  }
}
