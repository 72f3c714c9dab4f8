import { DuckDBDecimalType, type DuckDBType, DuckDBTypeId } from '@duckdb/node-api';
import { type Asked, type FoundRows, isListType, placed, type Running, startStandIn } from './stand-in.ts';

/** Rows of a part of a result. */
const PART = 3_000;

interface Statement extends Running {
  readonly linesBefore: number;
  isOver: boolean;
}

/** What the SQL API of Snowflake answers, over DuckDB: Snowflake itself can't be had without an account. */
export async function startSnowflake(changed: (path: string, body: object) => object = (_path, body) => body) {
  const statements = new Map<string, Statement>();
  const cancelled: string[] = [];
  const asked: { statement: string; parameters: object }[] = [];
  const standIn = await startStandIn(
    async ({ method, url: { pathname: path, searchParams }, headers, body }: Asked, run) => {
      const claims = JSON.parse(Buffer.from(headers.authorization?.split('.')[1] ?? 'e30', 'base64url').toString());
      if (!/^SHOP\.READER\.SHA256:/.test(claims.iss ?? '')) return [401, said('390144', 'JWT token is invalid.')];
      if (method === 'POST' && path === '/api/v2/statements') {
        const given = JSON.parse(body);
        asked.push(given);
        const id = `s${asked.length}`;
        const [, described] = /^SELECT \* FROM \(\n([\s\S]*)\n\) LIMIT 0$/.exec(given.statement) ?? [];
        const running = described === undefined ? run(given.statement) : run(described, true);
        const statement: Statement = {
          ...(await running),
          linesBefore: described === undefined ? 0 : 1,
          isOver: false,
        };
        void statement.done.then(() => {
          statement.isOver = true;
        });
        statements.set(id, statement);
        // Results of a thousand cuts would fill the memory.
        for (const old of [...statements.keys()].slice(0, -20)) statements.delete(old);
        return [202, { ...said('333334', 'Asynchronous execution in progress.'), statementHandle: id }];
      }
      const id = /^\/api\/v2\/statements\/(\w+)/.exec(path)?.[1] ?? '';
      const statement = statements.get(id);
      if (!statement) return [404, said('000709', 'Statement not found')];
      if (path.endsWith('/cancel')) {
        cancelled.push(id);
        statement.cancel();
        return [200, said('000604', 'canceled')];
      }
      if (!statement.isOver) return [202, said('333334', 'in progress')];
      const found = await statement.done;
      if (found instanceof Error) {
        if (cancelled.includes(id)) return [422, said('000604', 'SQL execution canceled', '57014')];
        const { what, line, column } = placed(found);
        return [
          422,
          said(
            '000904',
            `SQL compilation error: error line ${line + statement.linesBefore} at position ${column - 1}\n${what}`,
            '42000',
          ),
        ];
      }
      const data = (place: number) =>
        found.rows.slice(place * PART, (place + 1) * PART).map((row) => cells(found, row));
      const place = searchParams.get('partition');
      if (place !== null) return [200, changed(`${path}?${place}`, { data: data(Number(place)) })];
      const parts = Array.from({ length: Math.max(1, Math.ceil(found.rows.length / PART)) }, (_, place) => data(place));
      const resultSetMetaData = {
        numRows: found.rows.length,
        format: 'jsonv2',
        rowType: found.columns.map(({ name, type }) => columnOf(name, type)),
        partitionInfo: parts.map(({ length }) => ({ rowCount: length })),
      };
      return [200, changed(path, { resultSetMetaData, data: parts[0], code: '090001', statementHandle: id })];
    },
    [
      'CREATE MACRO TO_TIMESTAMP_NTZ(x) AS CAST(x AS TIMESTAMP)',
      "CREATE MACRO current_version() AS '10.1'",
      "CREATE MACRO current_warehouse() AS 'REPORTING'",
    ],
  );
  return { ...standIn, cancelled, asked };
}

const said = (code: string, message: string, sqlState = '00000') => ({ code, message, sqlState });

const NAMES: ReadonlyMap<DuckDBTypeId, string> = new Map([
  ...[DuckDBTypeId.TINYINT, DuckDBTypeId.SMALLINT, DuckDBTypeId.INTEGER, DuckDBTypeId.BIGINT, DuckDBTypeId.HUGEINT].map(
    (id) => [id, 'fixed'] as const,
  ),
  [DuckDBTypeId.DECIMAL, 'fixed'],
  [DuckDBTypeId.DOUBLE, 'real'],
  [DuckDBTypeId.BOOLEAN, 'boolean'],
  [DuckDBTypeId.DATE, 'date'],
  [DuckDBTypeId.TIMESTAMP, 'timestamp_ntz'],
  [DuckDBTypeId.TIMESTAMP_TZ, 'timestamp_tz'],
  [DuckDBTypeId.LIST, 'array'],
  [DuckDBTypeId.BLOB, 'binary'],
]);

function columnOf(name: string, type: DuckDBType): object {
  return { name, type: NAMES.get(type.typeId) ?? 'text', scale: type instanceof DuckDBDecimalType ? type.scale : 0 };
}

const cells = ({ columns }: FoundRows, row: readonly unknown[]) =>
  row.map((value, place) => (value === null ? null : cell(value, columns[place]?.type)));

function cell(value: unknown, type: DuckDBType | undefined): string {
  const text = String(value);
  // As Snowflake prints an array: with line breaks, and without a word of JSON for nothing.
  if (type && isListType(type)) return JSON.stringify(value, null, 2).replaceAll('null', 'undefined');
  if (type?.typeId === DuckDBTypeId.DATE) return String(Date.parse(`${text}T00:00:00Z`) / 86_400_000);
  if (type?.typeId !== DuckDBTypeId.TIMESTAMP && type?.typeId !== DuckDBTypeId.TIMESTAMP_TZ) return text;
  const milliseconds = Date.parse(`${text.replace(' ', 'T').replace(/\+00$/, '')}Z`);
  const size = Math.abs(milliseconds);
  const rest = String(size % 1_000).padStart(3, '0');
  const time = `${milliseconds < 0 ? '-' : ''}${Math.floor(size / 1_000)}.${rest}000000`;
  return type.typeId === DuckDBTypeId.TIMESTAMP ? time : `${time} 1440`;
}
