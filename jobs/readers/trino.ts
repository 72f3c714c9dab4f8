import { DateTime } from 'luxon';
import * as z from 'zod';
import type { TrinoConfig } from '../../src/config/config.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { authoredPlace, singleStatement, TRINO, timestampLiteral } from '../engines/sql/statement.ts';
import { definitionError, placeOfLine } from './errors.ts';
import { openRest, type RestRequest } from './http.ts';
import type { Reader, ReadRequest, ReadResult } from './port.ts';
import { firstRow, readRows, type Shape, type ShapedColumn, shapedColumn } from './shapes.ts';

/** Milliseconds after our own time limit, for queries whose process has ended. */
const GRACE = 30_000;

interface Signature {
  readonly rawType: string;
  readonly arguments: readonly { readonly kind: string; readonly value: unknown }[];
}

const page = z.object({
  nextUri: z.string().optional(),
  columns: z
    .array(
      z.object({
        name: z.string(),
        type: z.string(),
        typeSignature: z.custom<Signature>((given) => typeof given === 'object' && given !== null),
      }),
    )
    .optional(),
  data: z.array(z.unknown()).optional(),
  stats: z.object({ state: z.string() }),
  error: z
    .object({
      message: z.string().default('it failed'),
      errorName: z.string().default(''),
      errorType: z.string().default(''),
      errorLocation: z.object({ lineNumber: z.number(), columnNumber: z.number() }).optional(),
    })
    .optional(),
});
type Page = z.output<typeof page>;

/** Reads a Trino over its own HTTP protocol, whose client for Node ends normally where a query failed half-way. */
export async function openTrino(
  { url }: TrinoConfig,
  { timeout }: { readonly timeout?: number | undefined },
): Promise<Reader> {
  const { username, password, pathname } = new URL(url);
  const [user, secret, catalog, schema] = [username, password, ...pathname.slice(1).split('/')].map(decodeURIComponent);
  const rest = openRest(url, 'Trino');
  const headers = {
    'x-trino-user': user || 'rollcall',
    'x-trino-source': 'rollcall',
    'x-trino-time-zone': 'UTC',
    // Without it, the server rounds times to milliseconds.
    'x-trino-client-capabilities': 'PARAMETRIC_DATETIME',
    ...(catalog && { 'x-trino-catalog': catalog }),
    ...(schema && { 'x-trino-schema': schema }),
    ...(timeout !== undefined && { 'x-trino-session': `query_max_run_time=${Math.ceil((timeout + GRACE) / 1_000)}s` }),
    ...(secret && { authorization: `Basic ${Buffer.from(`${user}:${secret}`).toString('base64')}` }),
  };

  /** A server behind a proxy names itself otherwise: only the path counts. */
  const pathOf = (uri: string) => (({ pathname, search }) => `${pathname}${search}`)(new URL(uri));

  async function next(asked: RestRequest): Promise<Page> {
    const { status, body } = await rest.ask({ ...asked, headers });
    const answer = page.safeParse(body).data;
    if (status >= 300 || !answer) throw rest.unreachable(`HTTP ${status} without a page of a result`);
    return answer;
  }

  /** The pages of a query. They end once the server calls the query finished, and it is cancelled if nobody reads on. */
  async function* pages(statement: string, signal: AbortSignal | undefined): AsyncGenerator<Page> {
    // Not to be aborted, as only its answer says what to cancel.
    let answer = await next({ path: '/v1/statement', method: 'POST', body: statement });
    try {
      for (;;) {
        signal?.throwIfAborted();
        yield answer;
        if (answer.error || answer.nextUri === undefined) break;
        answer = await next({ path: pathOf(answer.nextUri), signal });
      }
      if (answer.stats.state === 'FINISHED') return;
      throw new RollcallError(
        'source_incomplete',
        `Trino ended the result, but called the query ${answer.stats.state}.`,
      );
    } finally {
      if (answer.nextUri !== undefined)
        await rest.ask({ path: pathOf(answer.nextUri), method: 'DELETE', headers }).catch(() => {});
    }
  }

  async function query({ sql, now, signal }: ReadRequest): Promise<ReadResult> {
    const moment = timestampLiteral(now);
    const statement = singleStatement(sql, moment, TRINO);
    const refuse = ({ error }: Page, linesBefore: number) => {
      if (!error) return;
      const { message, errorName, errorType, errorLocation: at } = error;
      const text = message.replace(/^line \d+:\d+: /, '');
      if (errorType !== 'USER_ERROR' || ENDED.has(errorName))
        throw new RollcallError('engine_failed', `Trino: ${text}.`);
      const place = at && placeOfLine(statement, at.lineNumber - linesBefore, at.columnNumber - 1);
      throw definitionError(new Error(text), {
        sql,
        place: place === undefined ? null : authoredPlace(sql, moment, place, TRINO),
      });
    };
    let columns: readonly ShapedColumn[] = [];
    for await (const answer of pages(`SELECT * FROM (\n${statement}\n) LIMIT 0`, signal)) {
      refuse(answer, 1);
      if (answer.columns)
        columns = answer.columns.map(({ name, type, typeSignature }) =>
          shapedColumn(name, type, shapeOf(typeSignature)),
        );
    }
    async function* batches() {
      for await (const answer of pages(statement, signal)) {
        refuse(answer, 0);
        if (answer.data) yield readRows(columns, answer.data);
      }
    }
    return { columns, batches: batches() };
  }

  return {
    query,
    async examine() {
      const [version, user] = await firstRow(query({ sql: 'SELECT version(), current_user', now: 0 }));
      return [{ state: 'ok', message: `Trino ${version}, as ${user}` }];
    },
    close: () => rest.close(),
  };
}

/** Ends of a query that its SQL did not cause, although Trino calls them errors of the user. */
const ENDED = new Set(['USER_CANCELED', 'ADMINISTRATIVELY_KILLED', 'ADMINISTRATIVELY_PREEMPTED', 'ABANDONED_QUERY']);

const LEAVES: ReadonlyMap<string, Shape> = new Map<string, Shape>([
  ...(['tinyint', 'smallint', 'integer', 'bigint'] as const).map((type) => [type, { kind: 'integer' }] as const),
  ...(['double', 'real', 'boolean', 'date', 'timestamp', 'json'] as const).map(
    (type) => [type, { kind: type }] as const,
  ),
  ['timestamp with time zone', { kind: 'timestamp', read: inUtc }],
  // A text of fixed length arrives padded with blanks.
  ['char', { kind: 'text', read: (value) => String(value).replace(/ +$/, '') }],
  ['time', { kind: 'text', read: (value) => String(value).replace(/\.0+$/, '') }],
  ...(['varchar', 'uuid', 'ipaddress', 'time with time zone', 'unknown'] as const).map(
    (type) => [type, { kind: 'text' }] as const,
  ),
]);

function shapeOf({ rawType, arguments: parts }: Signature): Shape {
  const part = (place: number) => shapeOf(parts[place]?.value as Signature);
  if (rawType === 'array') return { list: part(0) };
  if (rawType === 'map') return { map: part(1) };
  if (rawType === 'row')
    return {
      fields: parts.map(({ value }, place) => {
        const { fieldName, typeSignature } = value as { fieldName?: { name: string }; typeSignature: Signature };
        return [fieldName?.name ?? `field${place}`, shapeOf(typeSignature)];
      }),
    };
  if (rawType === 'decimal') return { kind: Number(parts[1]?.value) === 0 ? 'integer' : 'decimal' };
  return LEAVES.get(rawType) ?? { kind: 'binary' };
}

/** `2026-03-01 12:00:00.000 Europe/Berlin` */
function inUtc(value: NonNullable<unknown>): Date | null {
  const time = DateTime.fromSQL(String(value), { setZone: true });
  return time.isValid ? time.toJSDate() : null;
}
