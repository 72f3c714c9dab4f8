import * as z from 'zod';
import type { BigqueryConfig } from '../../src/config/config.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { authoredPlace, BIGQUERY, singleStatement } from '../engines/sql/statement.ts';
import { definitionError, placeOfLine } from './errors.ts';
import { openRest, type RestRequest } from './http.ts';
import { privateKeyOf, secretText, tokenOf } from './keys.ts';
import type { Reader, ReadRequest, ReadResult } from './port.ts';
import { firstRow, readRows, type Shape, shapedColumn } from './shapes.ts';

/** Milliseconds after our own time limit, for jobs whose process has ended. */
const GRACE = 30_000;
/** Rows of a page; BigQuery gives fewer if they are large. */
const PAGE = 20_000;
const SCOPE = 'https://www.googleapis.com/auth/bigquery';

interface Field {
  readonly name: string;
  readonly type: string;
  readonly mode?: string | undefined;
  readonly precision?: string | undefined;
  readonly scale?: string | undefined;
  readonly fields?: readonly Field[] | undefined;
}
const field: z.ZodType<Field> = z.lazy(() =>
  z.object({
    name: z.string(),
    type: z.string(),
    mode: z.string().optional(),
    precision: z.string().optional(),
    scale: z.string().optional(),
    fields: z.array(field).optional(),
  }),
);
const schema = z.object({ fields: z.array(field) });
const account = z.object({ client_email: z.string(), private_key: z.string(), token_uri: z.url() });
const granted = z.object({ access_token: z.string(), expires_in: z.number() });
const described = z.object({ schema });
const job = z.object({ jobReference: z.object({ location: z.string().optional() }) });
const page = z.object({
  jobComplete: z.boolean(),
  totalRows: z.string().optional(),
  rows: z.array(z.object({ f: z.array(z.object({ v: z.unknown() })) })).default([]),
  pageToken: z.string().optional(),
});
const failure = z.object({
  error: z.object({
    message: z.string(),
    errors: z.array(z.object({ reason: z.string().default('') })).default([]),
  }),
});

/** Reads a BigQuery over its REST API, which says how many rows a result has. */
export async function openBigquery(
  { project, location, credentials, url = 'https://bigquery.googleapis.com' }: BigqueryConfig,
  { folder, timeout }: { readonly folder: string; readonly timeout?: number | undefined },
): Promise<Reader> {
  const rest = openRest(url, 'BigQuery');
  const given = account.safeParse(jsonOf(await secretText(credentials, folder))).data;
  if (!given) throw rest.unreachable('the credentials are not the JSON of a key of a service account');
  const key = privateKeyOf(given.private_key);
  const home = `/bigquery/v2/projects/${encodeURIComponent(project)}`;
  let token = { text: '', until: 0 };

  async function bearer(): Promise<string> {
    const now = Math.floor(systemClock.now() / 1_000);
    if (token.until > now + 60) return token.text;
    const { client_email: iss, token_uri: aud } = given as z.output<typeof account>;
    const assertion = tokenOf(key, { iss, scope: SCOPE, aud, iat: now, exp: now + 3_600 });
    const body = `grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=${assertion}`;
    const issuer = openRest(aud, 'the issuer of tokens for BigQuery');
    try {
      const { pathname: path } = new URL(aud);
      const answer = await issuer.ask({
        path,
        method: 'POST',
        body,
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      });
      const found = granted.safeParse(answer.body).data;
      if (!found) throw issuer.unreachable(`HTTP ${answer.status} without a token`);
      token = { text: found.access_token, until: now + found.expires_in };
      return token.text;
    } finally {
      await issuer.close();
    }
  }

  async function ask<S extends z.ZodType>(expected: S, asked: RestRequest): Promise<z.output<S>> {
    const headers = { authorization: `Bearer ${await bearer()}`, 'content-type': 'application/json' };
    const { status, body } = await rest.ask({ ...asked, headers });
    const answer = expected.safeParse(body);
    if (status < 300 && answer.success) return answer.data;
    const { error } = failure.safeParse(body).data ?? {};
    if (!error || status === 401) throw rest.unreachable(error?.message ?? `HTTP ${status} without an answer`);
    throw Object.assign(new Error(error.message), { reason: error.errors[0]?.reason ?? '' });
  }

  const post = <S extends z.ZodType>(expected: S, path: string, body: object) =>
    ask(expected, { path: `${home}${path}`, method: 'POST', body: JSON.stringify(body) });

  /** The pages of a query. They end with the count that BigQuery gives, and it is cancelled if nobody reads on. */
  async function* pages(query: string, signal: AbortSignal | undefined) {
    const id = `rollcall_${systemClock.token(12)}`;
    let at = location;
    let isWhole = false;
    const place = () => new URLSearchParams({ ...(at !== undefined && { location: at }) });
    try {
      const jobTimeoutMs = timeout === undefined ? undefined : String(timeout + GRACE);
      const configuration = { query: { query, useLegacySql: false }, jobTimeoutMs, labels: { by: 'rollcall' } };
      const jobReference = { projectId: project, jobId: id, location };
      at = (await post(job, '/jobs', { jobReference, configuration })).jobReference.location ?? at;
      let read = 0;
      for (let next: string | undefined, total = ''; ; ) {
        signal?.throwIfAborted();
        const asked = place();
        asked.set('maxResults', String(PAGE));
        asked.set('timeoutMs', '10000');
        asked.set('formatOptions.useInt64Timestamp', 'true');
        if (next !== undefined) asked.set('pageToken', next);
        const answer = await ask(page, { path: `${home}/queries/${id}?${asked}`, signal });
        if (!answer.jobComplete) continue;
        total = answer.totalRows ?? total;
        read += answer.rows.length;
        if (answer.rows.length > 0) yield answer.rows;
        next = answer.pageToken;
        if (next !== undefined) continue;
        if (String(read) === total) break;
        throw new RollcallError('source_incomplete', `BigQuery ended the result after ${read} rows of ${total}.`);
      }
      isWhole = true;
    } finally {
      if (!isWhole) await post(z.unknown(), `/jobs/${id}/cancel?${place()}`, {}).catch(() => {});
    }
  }

  async function query({ sql, now, signal }: ReadRequest): Promise<ReadResult> {
    const moment = `TIMESTAMP '${new Date(now).toISOString().replace('T', ' ').replace('Z', '+00')}'`;
    const statement = singleStatement(sql, moment, BIGQUERY);
    // No session is read-only here, but nothing else than a query fits into one.
    const asked = `SELECT * FROM (\n${statement}\n)`;
    const meaningOf = (error: unknown): unknown => {
      signal?.throwIfAborted();
      const { message, reason } = error as { message: string; reason?: string };
      if (reason === undefined) return error;
      if (!ITS_FAULT.has(reason)) return new RollcallError('engine_failed', `BigQuery: ${message}`, { cause: error });
      const [found, line, column] = / at \[(\d+):(\d+)\]/.exec(message) ?? [];
      const place = found === undefined ? null : placeOfLine(statement, Number(line) - 1, Number(column) - 1);
      return definitionError(new Error(message.replace(found ?? '', '')), {
        sql,
        place: place === null ? null : authoredPlace(sql, moment, place, BIGQUERY),
      });
    };
    const dry = { query: asked, useLegacySql: false, dryRun: true, location };
    const { schema: found } = await post(described, '/queries', dry).catch((error) => {
      throw meaningOf(error);
    });
    const columns = found.fields.map((field) => shapedColumn(field.name, field.type.toLowerCase(), shapeOf(field)));
    async function* batches() {
      try {
        for await (const rows of pages(asked, signal))
          yield readRows(
            columns,
            rows.map(({ f }) => f.map(({ v }, place) => plain(v, found.fields[place]))),
          );
      } catch (error) {
        throw meaningOf(error);
      }
    }
    return { columns, batches: batches() };
  }

  return {
    query,
    async examine() {
      const [user] = await firstRow(query({ sql: 'SELECT session_user()', now: 0 }));
      return [{ state: 'ok', message: `BigQuery, as ${user} in ${project}` }];
    },
    close: () => rest.close(),
  };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** All others are of the service: quotas, resources, time limits, somebody who cancelled. */
const ITS_FAULT = new Set(['invalid', 'invalidQuery', 'notFound', 'accessDenied', 'duplicate']);

const SHAPES: ReadonlyMap<string, Shape> = new Map<string, Shape>([
  ...['INTEGER', 'INT64'].map((type) => [type, { kind: 'integer' }] as const),
  ...['FLOAT', 'FLOAT64'].map((type) => [type, { kind: 'double' }] as const),
  ...['BOOLEAN', 'BOOL'].map((type) => [type, { kind: 'boolean' }] as const),
  ...['STRING', 'TIME', 'INTERVAL', 'GEOGRAPHY'].map((type) => [type, { kind: 'text' }] as const),
  ['DATE', { kind: 'date' }],
  ['DATETIME', { kind: 'timestamp' }],
  ['TIMESTAMP', { kind: 'timestamp', read: timeOf }],
  ['JSON', { kind: 'json' }],
]);

function shapeOf({ mode, ...field }: Field): Shape {
  if (mode === 'REPEATED') return { list: shapeOf(field) };
  const { type, fields = [], precision, scale = '0' } = field;
  if (type === 'RECORD' || type === 'STRUCT') return { fields: fields.map((each) => [each.name, shapeOf(each)]) };
  if (/NUMERIC$/.test(type)) return { kind: precision !== undefined && scale === '0' ? 'integer' : 'decimal' };
  return SHAPES.get(type) ?? { kind: 'binary' };
}

/** A value without the objects that each one of a list or a record is wrapped in. */
function plain(value: unknown, field: Field | undefined): unknown {
  if (value === null || !field) return value;
  const { mode, ...one } = field;
  if (mode === 'REPEATED') return (value as readonly { readonly v: unknown }[]).map(({ v }) => plain(v, one));
  if (one.fields === undefined) return value;
  return (value as { readonly f: readonly { readonly v: unknown }[] }).f.map(({ v }, place) =>
    plain(v, one.fields?.[place]),
  );
}

/** Microseconds since 1970. */
function timeOf(value: NonNullable<unknown>): Date {
  const micros = BigInt(String(value));
  return new Date(Number(micros / 1_000n) - (micros % 1_000n < 0n ? 1 : 0));
}
