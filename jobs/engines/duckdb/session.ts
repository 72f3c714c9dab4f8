import {
  type DuckDBConnection,
  DuckDBDataChunk,
  type DuckDBMaterializedResult,
  type DuckDBResult,
  JSDuckDBValueConverter,
  LIST,
  listValue,
  VARCHAR,
} from '@duckdb/node-api';
import { RollcallError } from '../../../src/kernel/errors.ts';
import type { SqlSession } from '../sql/session.ts';
import { type HeldFile, holdFile, type OpenFileOptions } from './files.ts';
import { type DuckdbType, duckdbType } from './types.ts';

/** Failures that other SQL would not fix. */
const EXHAUSTED = /No space left on device|Out of Memory Error/;
const INTERRUPTED = /^INTERRUPT/;

export interface DuckdbSession extends SqlSession {
  /** Adds rows, given by column, to a temporary table whose columns are all text. */
  append(table: string, columns: readonly (readonly string[])[]): Promise<void>;
}

interface SessionOptions extends OpenFileOptions {
  /** Removes secrets from the text of an error. */
  readonly hide?: (text: string) => string;
}

/** The most rows in a chunk. */
const CHUNK = 2_048;

/**
 * Opens a session on a file, which all sessions of one process share.
 *
 * @throws RollcallError `engine_unreachable`, naming the process that holds the file
 */
export async function openSession({ hide = (text) => text, ...options }: SessionOptions): Promise<DuckdbSession> {
  const held = await holdFile(options);
  try {
    return duckdbSession(held, await held.connect(), hide);
  } catch (error) {
    await held.release();
    throw error;
  }
}

function duckdbSession(held: HeldFile, connection: DuckDBConnection, hide: (text: string) => string): DuckdbSession {
  async function query(...parameters: Parameters<DuckDBConnection['run']>) {
    try {
      return await connection.run(...parameters);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      const message = hide(error.message);
      if (EXHAUSTED.test(message)) throw new RollcallError('engine_failed', message, { cause: new Error(message) });
      throw message === error.message ? error : new Error(message);
    }
  }
  return {
    async rows(sql, texts) {
      return rowsOf(await (texts ? query(sql, [listValue([...texts])], [LIST(VARCHAR)]) : query(sql)));
    },
    async byColumn(sql) {
      return (await readTexts(query, sql)) ?? readValues(await query(sql));
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
        // A result that is not read to its end keeps the file open, and the next session waits forever.
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
    close: () => held.release(connection),
  };
}

/** The rows of a result, which is in memory: to ask the thread pool for each chunk took as long as a small query. */
function rowsOf(result: DuckDBMaterializedResult) {
  const chunks = Array.from({ length: result.chunkCount }, (_, index) => result.getChunk(index));
  return chunks.flatMap((chunk) => chunk.convertRows(JSDuckDBValueConverter));
}

type Query = (sql: string) => Promise<DuckDBMaterializedResult>;

/**
 * Reads each column as one text, which costs half of reading its values. Null if that fails, for instance because a
 * text or the memory is too small. Reading the values then works, or reports what is wrong.
 */
async function readTexts(query: Query, sql: string): Promise<unknown[][] | null> {
  try {
    const result = await query(`SELECT CAST(to_json(list(COLUMNS(*))) AS varchar) FROM (${sql}) AS found`);
    const [texts = []] = rowsOf(result);
    return texts.map((text) => (text === null ? [] : (JSON.parse(String(text)) as unknown[])));
  } catch (error) {
    if (error instanceof Error && INTERRUPTED.test(error.message)) throw error;
    return null;
  }
}

async function readValues(result: DuckDBResult): Promise<unknown[][]> {
  const columns = await result.getColumns();
  return columns.length > 0 ? columns : Array.from({ length: result.columnCount }, () => []);
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
