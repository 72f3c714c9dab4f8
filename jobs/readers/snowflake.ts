import { createHash, createPublicKey } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import * as z from 'zod';
import type { SnowflakeConfig } from '../../src/config/config.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { authoredPlace, SNOWFLAKE, singleStatement } from '../engines/sql/statement.ts';
import { definitionError, placeOfLine } from './errors.ts';
import { openRest, type RestRequest } from './http.ts';
import { privateKeyOf, secretText, tokenOf } from './keys.ts';
import type { Reader, ReadRequest, ReadResult } from './port.ts';
import { firstRow, readRows, type Shape, shapedColumn } from './shapes.ts';

/** Milliseconds after our own time limit, for statements whose process has ended. */
const GRACE = 30_000;
/** Seconds that a token is valid; Snowflake takes an hour at most. */
const VALID = 3_000;
const STATEMENTS = '/api/v2/statements';

const rows = z.array(z.unknown());
const column = z.object({ name: z.string(), type: z.string(), scale: z.number().nullish() });
const result = z.object({
  resultSetMetaData: z.object({
    numRows: z.number(),
    rowType: z.array(column),
    partitionInfo: z.array(z.object({ rowCount: z.number() })),
  }),
  data: rows,
});
const partition = z.object({ data: rows });
const running = z.object({ statementHandle: z.string() });
const failure = z.object({
  code: z.string().default(''),
  message: z.string().default('it failed'),
  sqlState: z.string().default(''),
});

/** Reads a Snowflake over its documented SQL API, which says how many rows each part of a result has. */
export async function openSnowflake(
  { account, user, privateKey, url, warehouse, role, database, schema }: SnowflakeConfig,
  { folder, timeout }: { readonly folder: string; readonly timeout?: number | undefined },
): Promise<Reader> {
  const key = privateKeyOf(await secretText(privateKey, folder));
  const rest = openRest(url ?? `https://${account}.snowflakecomputing.com`, 'Snowflake');
  const der = createPublicKey(key as never).export({ type: 'spki', format: 'der' });
  // The region of an account is no part of its name here.
  const subject = `${account.split('.')[0]}.${user}`.toUpperCase();
  const issuer = `${subject}.SHA256:${createHash('sha256').update(der).digest('base64')}`;
  const settings = {
    ...{ warehouse, role, database, schema },
    timeout: timeout === undefined ? 0 : Math.ceil((timeout + GRACE) / 1_000),
    // A limit of rows would cut the result without a word.
    parameters: { timezone: 'UTC', rows_per_resultset: '0', multi_statement_count: '1', query_tag: 'rollcall' },
  };
  let token = { text: '', until: 0 };

  function headers() {
    const now = Math.floor(systemClock.now() / 1_000);
    if (token.until < now + 60) {
      const text = tokenOf(key, { iss: issuer, sub: subject, iat: now, exp: now + VALID });
      token = { text, until: now + VALID };
    }
    return {
      authorization: `Bearer ${token.text}`,
      'x-snowflake-authorization-token-type': 'KEYPAIR_JWT',
      'content-type': 'application/json',
    };
  }

  async function ask<S extends z.ZodType>(schema: S, asked: RestRequest): Promise<z.output<S> | null> {
    const { status, body } = await rest.ask({ ...asked, headers: headers() });
    const answer = schema.safeParse(body);
    if (status < 300 && answer.success) return answer.data;
    if (status === 202) return null;
    throw Object.assign(new Error(`HTTP ${status}`), { status, failure: failure.safeParse(body).data });
  }

  /** The parts of a result, the first with its columns. It is cancelled if nobody reads on. */
  async function* parts(statement: string, signal: AbortSignal | undefined) {
    const body = JSON.stringify({ statement, ...settings });
    // Not to be aborted, as only its answer says what to cancel.
    const begun = await ask(running, { path: `${STATEMENTS}?async=true`, method: 'POST', body });
    const path = `${STATEMENTS}/${encodeURIComponent(begun?.statementHandle ?? '')}`;
    let isWhole = false;
    try {
      let found = await ask(result, { path, signal });
      for (let pause = 50; found === null; pause = Math.min(pause * 2, 2_000)) {
        await wait(pause, null, { signal });
        found = await ask(result, { path, signal });
      }
      const { numRows, rowType, partitionInfo } = found.resultSetMetaData;
      let read = 0;
      for (const [place, { rowCount }] of partitionInfo.entries()) {
        const data =
          place === 0 ? found.data : (await ask(partition, { path: `${path}?partition=${place}`, signal }))?.data;
        if (data?.length !== rowCount) throw incomplete(`part ${place} has ${data?.length ?? 0} rows of ${rowCount}`);
        read += rowCount;
        yield { rowType, data };
      }
      if (read !== numRows) throw incomplete(`${read} rows came of ${numRows}`);
      isWhole = true;
    } finally {
      if (!isWhole) await ask(z.unknown(), { path: `${path}/cancel`, method: 'POST' }).catch(() => {});
    }
  }

  async function query({ sql, now, signal }: ReadRequest): Promise<ReadResult> {
    const moment = `TO_TIMESTAMP_NTZ('${new Date(now).toISOString().replace('T', ' ').replace('Z', '')}')`;
    const statement = singleStatement(sql, moment, SNOWFLAKE);
    const meaningOf = (error: unknown, linesBefore: number): unknown => {
      signal?.throwIfAborted();
      const { status = 0, failure: said } = error as { status?: number; failure?: z.output<typeof failure> };
      if (status === 0) return error;
      if (!said || status === 401 || status === 403) return rest.unreachable(said?.message ?? `HTTP ${status}`, error);
      const { code, message, sqlState } = said;
      if (status !== 422 || NOT_ITS_FAULT.test(sqlState) || ENDED.has(code))
        return new RollcallError('engine_failed', `Snowflake: ${message}`, { cause: error });
      const [, line, column] = /line (\d+) at position (\d+)/.exec(message) ?? [];
      const place = line === undefined ? null : placeOfLine(statement, Number(line) - linesBefore, Number(column));
      const text = message
        .replace(/^SQL compilation error:\s*/, '')
        .replace(/^(error )?line \d+ at position \d+\s*/, '');
      return definitionError(new Error(text), {
        sql,
        place: place === null ? null : authoredPlace(sql, moment, place, SNOWFLAKE),
      });
    };
    async function* read(asked: string, linesBefore: number) {
      try {
        yield* parts(asked, signal);
      } catch (error) {
        throw meaningOf(error, linesBefore);
      }
    }
    let types: readonly z.output<typeof column>[] = [];
    for await (const { rowType } of read(`SELECT * FROM (\n${statement}\n) LIMIT 0`, 1)) types = rowType;
    const columns = types.map(({ name, type, scale }) =>
      shapedColumn(nameOf(name), type, shapeOf(type.toLowerCase(), scale ?? 0)),
    );
    async function* batches() {
      for await (const { data } of read(statement, 0)) if (data.length > 0) yield readRows(columns, data);
    }
    return { columns, batches: batches() };
  }

  return {
    query,
    async examine() {
      const sql = 'SELECT current_version(), current_user(), current_role(), current_warehouse()';
      const [version, user, role, warehouse] = await firstRow(query({ sql, now: 0 }));
      if (warehouse === null) {
        const message = `gives ${user} no warehouse. Name one as \`warehouse\`, and grant USAGE on it`;
        return [{ state: 'failed', message }];
      }
      return [{ state: 'ok', message: `Snowflake ${version}, as ${user} with the role ${role}` }];
    },
    close: () => rest.close(),
  };
}

/** Names that an author wrote without quotes arrive in capital letters. */
const nameOf = (name: string) => (/^[A-Z_][A-Z0-9_$]*$/.test(name) ? name.toLowerCase() : name);

const incomplete = (why: string) => new RollcallError('source_incomplete', `Snowflake's result is not whole: ${why}.`);

/** Cancelled, out of resources, or failed within. */
const NOT_ITS_FAULT = /^(53|57|58|XX)/;
/** Cancelled by somebody, a time limit, a suspended warehouse. */
const ENDED = new Set(['000604', '000606', '000630', '000639']);

const SHAPES: ReadonlyMap<string, Shape> = new Map<string, Shape>([
  ['real', { kind: 'double' }],
  ['float', { kind: 'double' }],
  ['decfloat', { kind: 'decimal' }],
  ['text', { kind: 'text' }],
  ['time', { kind: 'text', read: (value) => new Date(Number(value) * 1_000).toISOString().slice(11, 19) }],
  ['boolean', { kind: 'boolean' }],
  ['date', { kind: 'date', read: (days) => new Date(Number(days) * 86_400_000) }],
  ...['timestamp_ntz', 'timestamp_ltz', 'timestamp_tz'].map(
    (type) => [type, { kind: 'timestamp', read: timeOf }] as const,
  ),
  ...['variant', 'object', 'array', 'map'].map((type) => [type, { kind: 'json', read: strictJson }] as const),
]);

function shapeOf(type: string, scale: number): Shape {
  if (type === 'fixed' || type === 'number') return { kind: scale === 0 ? 'integer' : 'decimal' };
  return SHAPES.get(type) ?? { kind: 'binary' };
}

/** Seconds since 1970 with nine places, and an offset that changes nothing about the instant. */
function timeOf(value: NonNullable<unknown>): Date {
  const [, seconds = 'NaN', fraction = ''] = /^(-?\d+)(?:\.(\d{1,3}))?/.exec(String(value)) ?? [];
  const part = Number(fraction.padEnd(3, '0'));
  return new Date(Number(seconds) * 1_000 + (seconds.startsWith('-') ? -part : part));
}

/** Semi-structured values have line breaks, and `undefined` for a null within an array. */
function strictJson(value: NonNullable<unknown>): string {
  return String(value).replaceAll(/"(?:[^"\\]|\\.)*"|\s+|undefined|NaN|-?Infinity/g, (part) =>
    part.startsWith('"') ? part : part.trim() === '' ? '' : 'null',
  );
}
