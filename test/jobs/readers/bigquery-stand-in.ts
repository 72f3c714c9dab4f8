import { DuckDBDecimalType, type DuckDBType, DuckDBTypeId } from '@duckdb/node-api';
import {
  type Asked,
  type FoundRows,
  isListType,
  placed,
  type Running,
  type StandIn,
  startStandIn,
} from './stand-in.ts';

/** Rows of a page that the stand-in gives at most. */
const PAGE = 3_000;

interface Job extends Running {
  isOver: boolean;
}

/** What the REST API of BigQuery answers, over DuckDB: BigQuery itself can't be had without an account. */
export async function startBigquery(changed: (path: string, body: object) => object = (_path, body) => body) {
  const jobs = new Map<string, Job>();
  const cancelled: string[] = [];
  const standIn: StandIn = await startStandIn(
    async ({ method, url, headers, body }: Asked, run) => {
      const { pathname, searchParams: asked } = url;
      if (pathname === '/token') return [200, { access_token: 'granted', expires_in: 3_600 }];
      if (headers.authorization !== 'Bearer granted') return [401, failure('authError', 'Invalid Credentials')];
      const path = pathname.replace('/bigquery/v2/projects/shop', '');
      if (method === 'POST' && path === '/queries') {
        const { query } = JSON.parse(body) as { query: string };
        const inner = query.replace(/^SELECT \* FROM \(\n([\s\S]*)\n\)$/, '$1');
        const found = await (await run(inner, true)).done;
        if (found instanceof Error) return [400, mistake(found, 1)];
        const names = found.columns.map(({ name }) => name.toLowerCase());
        if (new Set(names).size < names.length) return [400, failure('invalidQuery', 'Duplicate column names')];
        return [200, changed(path, { schema: { fields: found.columns.map(({ name, type }) => fieldOf(name, type)) } })];
      }
      if (method === 'POST' && path === '/jobs') {
        const { jobReference, configuration } = JSON.parse(body);
        const job: Job = { ...(await run(configuration.query.query)), isOver: false };
        void job.done.then(() => {
          job.isOver = true;
        });
        jobs.set(jobReference.jobId, job);
        // Results of a thousand cuts would fill the memory.
        for (const old of [...jobs.keys()].slice(0, -20)) jobs.delete(old);
        return [200, changed(path, { jobReference: { ...jobReference, location: 'EU' } })];
      }
      const id = /^\/(?:queries|jobs)\/(\w+)/.exec(path)?.[1] ?? '';
      const job = jobs.get(id);
      if (!job) return [404, failure('notFound', `Not found: Job ${id}`)];
      if (path.endsWith('/cancel')) {
        cancelled.push(id);
        job.cancel();
        return [200, {}];
      }
      if (!job.isOver) await Promise.race([job.done, new Promise((resolve) => setTimeout(resolve, 100))]);
      if (!job.isOver) return [200, { jobComplete: false }];
      const found = await job.done;
      if (found instanceof Error) {
        return cancelled.includes(id)
          ? [400, failure('stopped', 'Job execution was cancelled')]
          : [400, mistake(found, 0)];
      }
      const from = Number(asked.get('pageToken') ?? 0);
      const next = Math.min(from + Math.min(PAGE, Number(asked.get('maxResults'))), found.rows.length);
      const page = {
        jobComplete: true,
        totalRows: String(found.rows.length),
        rows: found.rows.slice(from, next).map((row) => ({ f: cells(found, row) })),
        ...(next < found.rows.length && { pageToken: String(next) }),
      };
      return [200, changed(path, page)];
    },
    ["CREATE MACRO session_user() AS 'reader@shop.iam.gserviceaccount.com'"],
  );
  return { ...standIn, cancelled };
}

const failure = (reason: string, message: string) => ({ error: { code: 400, message, errors: [{ reason, message }] } });

function mistake(error: Error, linesBefore: number): object {
  const { what, line, column } = placed(error);
  return failure('invalidQuery', `${what} at [${line + linesBefore}:${column}]`);
}

const NAMES: ReadonlyMap<DuckDBTypeId, string> = new Map([
  ...[DuckDBTypeId.TINYINT, DuckDBTypeId.SMALLINT, DuckDBTypeId.INTEGER, DuckDBTypeId.BIGINT, DuckDBTypeId.HUGEINT].map(
    (id) => [id, 'INTEGER'] as const,
  ),
  [DuckDBTypeId.DOUBLE, 'FLOAT'],
  [DuckDBTypeId.BOOLEAN, 'BOOLEAN'],
  [DuckDBTypeId.DATE, 'DATE'],
  [DuckDBTypeId.TIMESTAMP, 'TIMESTAMP'],
  [DuckDBTypeId.TIMESTAMP_TZ, 'TIMESTAMP'],
  [DuckDBTypeId.BLOB, 'BYTES'],
]);

function fieldOf(name: string, type: DuckDBType): object {
  if (isListType(type)) return { ...fieldOf(name, type.valueType), mode: 'REPEATED' };
  if (type instanceof DuckDBDecimalType)
    return { name, type: 'NUMERIC', precision: String(type.width), scale: String(type.scale) };
  return { name, type: NAMES.get(type.typeId) ?? 'STRING', mode: 'NULLABLE' };
}

const cells = ({ columns }: FoundRows, row: readonly unknown[]) =>
  row.map((value, place) => ({ v: cell(value, columns[place]?.type) }));

function cell(value: unknown, type: DuckDBType | undefined): unknown {
  if (value === null || type === undefined) return null;
  if (isListType(type)) return (value as readonly unknown[]).map((item) => ({ v: cell(item, type.valueType) }));
  if (NAMES.get(type.typeId) !== 'TIMESTAMP') return String(value);
  return String(
    BigInt(Date.parse(`${String(value).slice(0, 19).replace(' ', 'T')}Z`)) * 1_000n + micros(String(value)),
  );
}

const micros = (time: string) => BigInt((/\.(\d+)/.exec(time)?.[1] ?? '').padEnd(6, '0').slice(0, 6));
