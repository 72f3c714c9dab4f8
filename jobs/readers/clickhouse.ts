import type { ClickhouseConfig } from '../../src/config/config.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { isIncomplete, openSession } from '../engines/clickhouse/session.ts';
import { isIdType, jsonText, jsonType, moment, name } from '../engines/clickhouse/types.ts';
import { CLICKHOUSE, singleStatement } from '../engines/sql/statement.ts';
import { definitionError } from './errors.ts';
import type { ReadColumn, Reader, ReadRequest, ReadResult } from './port.ts';

/** Reads a ClickHouse whose user may only select. Values are written as JSON by ClickHouse itself. */
export async function openClickhouseReader(
  config: ClickhouseConfig,
  { folder, timeout }: { readonly folder: string; readonly timeout?: number | undefined },
): Promise<Reader> {
  const session = await openSession(config, { folder, timeout, token: () => systemClock.token(12) });

  async function query({ sql, now, signal }: ReadRequest): Promise<ReadResult> {
    const statement = singleStatement(sql, moment(now), CLICKHOUSE);
    const meaningOf = (error: unknown): unknown => {
      signal?.throwIfAborted();
      if (error instanceof RollcallError || !(error instanceof Error)) return error;
      if (isIncomplete(error)) return new RollcallError('source_incomplete', error.message, { cause: error });
      return definitionError(error, { sql, place: null });
    };
    const described = await session.rows(`DESCRIBE TABLE (\n${statement}\n)`, signal).catch((error) => {
      throw meaningOf(error);
    });
    const columns = described.map(([column, type]) => readColumn(String(column), String(type)));
    const values = columns.map((column) => textOf(column));
    async function* batches() {
      try {
        yield* session.stream(`SELECT ${values.join(', ')} FROM (\n${statement}\n)`, signal);
      } catch (error) {
        throw meaningOf(error);
      }
    }
    return { columns, batches: batches() };
  }

  return {
    query,
    async examine() {
      const [[version, user] = []] = await session.rows('SELECT version(), currentUser()');
      return [{ state: 'ok', message: `ClickHouse ${version}, read only, as ${user}` }];
    },
    close: () => session.close(),
  };
}

function readColumn(column: string, type: string): ReadColumn {
  if (isIdType(type)) return { name: column, type, kind: /Int\d/.test(type) ? 'integer' : 'text' };
  if (jsonText('x', type) === null) return { name: column, type, kind: 'binary' };
  const { type: json, isList } = jsonType(type);
  return {
    name: column,
    type,
    kind: 'json',
    json: json === 'unknown' || json === 'scalar' ? undefined : { type: json, isList },
  };
}

function textOf({ name: column, type, kind }: ReadColumn): string {
  const value = name(column);
  if (kind === 'binary') return 'NULL';
  if (kind === 'json') return jsonText(value, type) ?? 'NULL';
  return `toValidUTF8(${/FixedString/.test(type) ? `toStringCutToZero(${value})` : `toString(${value})`})`;
}
