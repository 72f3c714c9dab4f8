import type { PostgresConfig } from '../../src/config/config.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { interruptedBy } from '../engines/insist.ts';
import { copiedValues } from '../engines/postgres/copy-out.ts';
import { postgresDialect } from '../engines/postgres/dialect.ts';
import { openSession } from '../engines/postgres/session.ts';
import { withAuthoredPlace } from '../engines/sql/excerpt.ts';
import { type Column, name } from '../engines/sql/plan-query.ts';
import { readStatement } from '../engines/sql/statement.ts';
import type { ReadColumn, Reader, ReadRequest, ReadResult } from './port.ts';

/** Cancelled by the standby, since the primary removed rows that the query might see. */
const CONFLICT = '40001';

/** Reads a Postgres, which may be a standby or a role that may only select. */
export async function openPostgresReader(
  { url }: Pick<PostgresConfig, 'url'>,
  { timeout, seesEvents = false }: { readonly timeout?: number | undefined; readonly seesEvents?: boolean },
): Promise<Reader> {
  const session = await openSession(url, { timeout, seesEvents, readsOnly: true });
  const until = <T>(signal: AbortSignal | undefined, work: () => Promise<T>) =>
    signal ? interruptedBy(signal, session.interrupt, work) : work();

  async function query({ sql, now, signal }: ReadRequest): Promise<ReadResult> {
    const statement = readStatement(sql, now);
    const failed = (error: unknown, asked: string) => meaningOf(error, { sql, asOf: now }, asked);
    const described = `SELECT * FROM (\n${statement}\n) AS definition LIMIT 0`;
    const columns = await until(signal, () => session.columns(described)).catch((error) => {
      throw failed(error, described);
    });
    // A column's name may be there twice, so that they get others.
    const names = columns.map((_, place) => `column${place}`);
    const values = columns.map((column, place) => textOf({ ...column, name: names[place] ?? '' }));
    const asked = `SELECT ${values.join(', ')} FROM (\n${statement}\n) AS definition (${names.join(', ')})`;
    async function* batches() {
      const rows = session.copy(asked);
      try {
        for (;;) {
          const { value, done } = await until(signal, () => rows.next());
          if (done) return;
          const isPlain = columns.length === 1 && !value.text.includes('\\');
          yield { rows: value.rows, columns: isPlain ? [value.text] : copiedValues(value, columns.length) };
        }
      } catch (error) {
        signal?.throwIfAborted();
        throw failed(error, `COPY (\n${asked}`);
      } finally {
        await rows.return(undefined);
      }
    }
    return { columns: columns.map(readColumn), batches: batches() };
  }

  return {
    query,
    async examine() {
      const [[version, isStandby, user] = []] = await session.rows(
        "SELECT current_setting('server_version'), pg_is_in_recovery(), current_user",
      );
      return [
        { state: 'ok', message: `PostgreSQL ${version}${isStandby ? ', a standby' : ''}, read only, as ${user}` },
      ];
    },
    close: session.close,
  };
}

const isText = (type: string) => /^(text|character varying|character|name|citext|uuid|enum)$/.test(type);

function readColumn(column: Column): ReadColumn {
  const { name, type } = column;
  if (isText(type)) return { name, type, kind: 'text' };
  if (postgresDialect.isIdType(type)) return { name, type, kind: 'integer' };
  if (postgresDialect.traitValue(column) === null) return { name, type, kind: 'binary' };
  const { type: json, isList } = postgresDialect.jsonType(column);
  return {
    name,
    type,
    kind: 'json',
    json: json === 'unknown' || json === 'scalar' ? undefined : { type: json, isList },
  };
}

/** Values are written as JSON by Postgres itself, as in an engine that writes there. */
function textOf(column: Column): string {
  if (postgresDialect.isIdType(column.type)) return `CAST(${name(column.name)} AS text)`;
  const value = postgresDialect.traitValue(column);
  return value === null ? 'NULL' : `CAST(to_json(${value}) AS text)`;
}

function meaningOf(
  error: unknown,
  definition: { readonly sql: string; readonly asOf: number },
  asked: string,
): unknown {
  const { code } = error as { code?: string };
  if (code === CONFLICT) {
    const message = `${(error as Error).message}. The standby has to apply what the primary removed: raise max_standby_streaming_delay there, or set hot_standby_feedback = on`;
    return new RollcallError('engine_failed', message, { cause: error });
  }
  if (error instanceof RollcallError || !(error instanceof Error)) return error;
  return new RollcallError('sql_failed', withAuthoredPlace(error, definition, asked), { cause: error });
}
