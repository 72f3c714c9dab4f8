import {
  type DuckDBConnection,
  DuckDBDataChunk,
  DuckDBInstance,
  type DuckDBResult,
  LIST,
  listValue,
  VARCHAR,
} from '@duckdb/node-api';
import type { Clock } from '../../../src/clock.ts';
import { RollcallError } from '../../../src/errors.ts';
import type { Session } from '../sql/session.ts';
import { type DuckdbType, duckdbType } from './types.ts';

const LOCK_RETRY = 200;
/** What no other SQL would cure. */
const EXHAUSTED = /No space left on device|Out of Memory Error/;

export interface OpenOptions {
  readonly path: string;
  readonly readOnly: boolean;
  readonly settings: Readonly<Record<string, string>>;
  /** How long to wait for another process to let go of the file, in milliseconds. */
  readonly patience: number;
  readonly clock: Clock;
}

export interface DuckdbSession extends Session {
  /** Adds rows to a temporary table whose columns are all text: a list for each column. */
  append(table: string, columns: readonly (readonly string[])[]): Promise<void>;
}

/** Rows that cross at once at most. */
const CHUNK = 2_048;

/**
 * Opens the file, which DuckDB locks for this process; several sessions of one process share it.
 *
 * @throws RollcallError `engine_unreachable`, naming the process that holds the file
 */
export async function openSession(options: OpenOptions): Promise<DuckdbSession> {
  const instance = await openInstance(options);
  try {
    const connection = await instance.connect();
    await connection.run("SET TimeZone = 'UTC'");
    return duckdbSession(instance, connection);
  } catch (error) {
    instance.closeSync();
    throw error;
  }
}

async function openInstance({ path, readOnly, settings, patience, clock }: OpenOptions): Promise<DuckDBInstance> {
  let mode = readOnly ? { ...settings, access_mode: 'READ_ONLY' } : settings;
  for (const start = clock.monotonic(); ; ) {
    try {
      return await DuckDBInstance.fromCache(path, { ...mode });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const isOpenHere = message.includes('different configuration');
      if (isOpenHere && mode !== settings) {
        mode = settings;
        continue;
      }
      const mayPass = isOpenHere || message.includes('Could not set lock');
      if (!mayPass || clock.monotonic() - start >= patience) throw unreachable(path, message, error);
      await clock.sleep(LOCK_RETRY);
    }
  }
}

function unreachable(path: string, message: string, cause: unknown): RollcallError {
  const holder = /lock is held in (.+? \(PID \d+\))/.exec(message)?.[1];
  const reason = holder ? `it is in use by ${holder}` : message;
  return new RollcallError('engine_unreachable', `Can't open ${path}: ${reason}.`, { cause });
}

function duckdbSession(instance: DuckDBInstance, connection: DuckDBConnection): DuckdbSession {
  async function query(...parameters: Parameters<DuckDBConnection['run']>) {
    try {
      return await connection.run(...parameters);
    } catch (error) {
      if (!(error instanceof Error && EXHAUSTED.test(error.message))) throw error;
      throw new RollcallError('engine_failed', error.message, { cause: error });
    }
  }
  return {
    async rows(sql, texts) {
      const result = await (texts ? query(sql, [listValue([...texts])], [LIST(VARCHAR)]) : query(sql));
      return result.getRowsJS();
    },
    async byColumn(sql) {
      const result = await query(sql);
      const columns = await result.getColumns();
      return columns.length > 0 ? columns : Array.from({ length: result.columnCount }, () => []);
    },
    async *stream(sql) {
      const result = await connection.stream(sql);
      let isOpen = true;
      try {
        for (let chunk = await result.fetchChunk(); chunk && chunk.rowCount > 0; chunk = await result.fetchChunk()) {
          yield chunk.getColumns();
        }
        isOpen = false;
      } finally {
        // A result that is not read to its end keeps the file open, and whoever opens it next waits for ever.
        if (isOpen) await endResult(connection, result);
      }
    },
    async run(sql) {
      return Number((await query(sql)).rowsChanged);
    },
    async columns(sql) {
      const result = await query(sql);
      const types = result.columnTypes();
      return result.columnNames().map((name, index) => ({ name, ...duckdbType(types[index] as DuckdbType) }));
    },
    append: (table, columns) => append(connection, table, columns),
    interrupt: () => connection.interrupt(),
    async close() {
      connection.closeSync();
      instance.closeSync();
    },
  };
}

async function endResult(connection: DuckDBConnection, result: DuckDBResult): Promise<void> {
  connection.interrupt();
  try {
    while (((await result.fetchChunk())?.rowCount ?? 0) > 0);
  } catch {
    // It was interrupted.
  }
}

async function append(
  connection: DuckDBConnection,
  table: string,
  columns: readonly (readonly string[])[],
): Promise<void> {
  const appender = await connection.createAppender(table, 'main', 'temp');
  const rows = columns[0]?.length ?? 0;
  for (let from = 0; from < rows; from += CHUNK) {
    const chunk = DuckDBDataChunk.create(columns.map(() => VARCHAR));
    chunk.setColumns(columns.map((column) => column.slice(from, from + CHUNK)));
    appender.appendDataChunk(chunk);
  }
  appender.closeSync();
}
