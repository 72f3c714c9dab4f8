import { mkdir, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import type { AttachedDatabase } from '../../duckdb.ts';
import { failpoint } from '../../kernel/failpoint.ts';
import type { LogFile, SelectedRow, TailPart } from '../event-log.ts';
import { COLUMNS, eventsOf } from './columns.ts';
import { type LogFiles, SEALED, WORK } from './files.ts';
import { readable } from './readable.ts';

/** Beyond this, DuckDB writes to disk: sealing must leave the machine to collection. */
const MEMORY = '512MB';

export interface PlannedFile {
  readonly name: string;
  readonly source: string;
  readonly day: string;
  readonly query: string;
  /** Written also without events. */
  readonly mayBeEmpty?: true;
}

/** Loaded only if there is a log: it takes a fifth of a command's start time. */
const duckdb = () => import('@duckdb/node-api');

const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`;
const TIMES: ReadonlySet<string> = new Set(['timestamp', 'received_at']);
const OBJECTS: ReadonlySet<string> = new Set(['properties', 'traits', 'context', 'rest']);
const COLUMN_LIST = COLUMNS.map((column) => `"${column}"`).join(', ');
/** Columns of a SELECT that make DuckDB decode every value. */
const READ_WHOLE = COLUMNS.map((column) => `sum(length(CAST("${column}" AS varchar)))`).join(', ');
/** Keeps each user's events together, in the order of time. */
const ORDER = 'ORDER BY user_id, anonymous_id, timestamp, received_at, message_id';

/** An in-memory database over the log's folder, which reads and writes its files and stores nothing. */
export class Workbench {
  private readonly place: LogFiles;
  private readonly database: AttachedDatabase;
  private readonly connection: DuckDBConnection;
  private readonly token: () => string;

  private constructor(place: LogFiles, database: AttachedDatabase, connection: DuckDBConnection, token: () => string) {
    this.place = place;
    this.database = database;
    this.connection = connection;
    this.token = token;
  }

  /** @param token - makes unique file names */
  static async open(place: LogFiles, token: () => string): Promise<Workbench> {
    const { folder } = place;
    await mkdir(join(folder, WORK), { recursive: true });
    const { attachDatabase } = await import('../../duckdb.ts');
    const database = await attachDatabase(
      { path: ':memory:', name: 'workbench' },
      {
        memory_limit: MEMORY,
        threads: '1',
        temp_directory: join(folder, WORK),
        autoinstall_known_extensions: 'false',
      },
    );
    try {
      return new Workbench(place, database, await database.connect(), token);
    } catch (error) {
      await database.detach();
      throw error;
    }
  }

  async close(): Promise<void> {
    this.connection.closeSync();
    await this.database.detach();
  }

  interrupt(): void {
    this.connection.interrupt();
  }

  async rows(sql: string): Promise<unknown[][]> {
    return (await this.connection.run(sql)).getRowsJS();
  }

  /** Stream the rows of a query by column, some thousand at a time. */
  async *stream(sql: string): AsyncGenerator<unknown[][]> {
    const result = await this.connection.stream(sql);
    for (let chunk = await result.fetchChunk(); chunk && chunk.rowCount > 0; chunk = await result.fetchChunk()) {
      yield chunk.getColumns() as unknown[][];
    }
  }

  /** Fill a table of one column. */
  async list(table: string, values: readonly string[]): Promise<void> {
    await this.connection.run(`CREATE OR REPLACE TABLE ${table} (id VARCHAR)`);
    await this.append(table, [values]);
  }

  /** Load parts of the tail; `plan` returns the files for them. */
  async load(parts: readonly TailPart[]): Promise<void> {
    await this.connection.run('CREATE TABLE IF NOT EXISTS parts (source VARCHAR, bodies VARCHAR)');
    await this.append('parts', [parts.map(({ source }) => source), parts.map(({ bodies }) => readable(bodies))]);
  }

  /** Plan a file for each source and day of the loaded parts. */
  async plan(): Promise<readonly PlannedFile[]> {
    await this.connection.run(`CREATE OR REPLACE TABLE events AS ${eventsOf('parts')}`);
    await this.connection.run('DROP TABLE parts');
    const groups = await this.rows('SELECT DISTINCT source, CAST(day AS varchar) FROM events ORDER BY ALL');
    return groups.map(([source, day]) =>
      this.planned(
        { source: String(source), day: String(day) },
        `SELECT ${COLUMN_LIST} FROM events WHERE source = ${quoted(String(source))} AND day = DATE ${quoted(String(day))}`,
      ),
    );
  }

  /** Load rows of a table of Postgres, all of one source and day; `sealed` returns the file for them. */
  async loadRows(rows: readonly SelectedRow[]): Promise<void> {
    const columns = COLUMNS.map((column) => `"${column}" VARCHAR`).join(', ');
    await this.connection.run(`CREATE TABLE IF NOT EXISTS day_rows (${columns})`);
    await this.append(
      'day_rows',
      COLUMNS.map((_column, index) => rows.map((row) => row[index] ?? null)),
    );
  }

  /** Plan the one file of a source and day. */
  sealed(source: string, day: string): PlannedFile {
    const typed = COLUMNS.map((column) => {
      if (TIMES.has(column)) return `make_timestamp_ms(CAST("${column}" AS BIGINT)) AS "${column}"`;
      return OBJECTS.has(column) ? `CAST("${column}" AS JSON) AS "${column}"` : `"${column}"`;
    });
    const { name } = this.planned({ source, day }, '');
    return {
      name: join(dirname(name), SEALED),
      source,
      day,
      query: `SELECT ${typed.join(', ')} FROM day_rows`,
    };
  }

  /** Plan a file of these files' events, all of one source and day. @param condition - SQL for those that stay */
  async merged(files: readonly LogFile[], condition = 'true', columns = COLUMN_LIST): Promise<PlannedFile> {
    const { source = '', day = '' } = files[0] ?? {};
    return this.planned({ source, day }, `SELECT ${columns} FROM ${await this.files(files)} WHERE ${condition}`);
  }

  /** Return a FROM item with the events of these files, and the path of each as `filename`. */
  async files(files: readonly LogFile[]): Promise<string> {
    await this.place.fetch(files);
    const paths = files.map(({ name }) => quoted(join(this.place.folder, name))).join(', ');
    return `read_parquet([${paths}], hive_partitioning = false, filename = true)`;
  }

  /** Count the events of a file, reading each completely. */
  async count(file: LogFile): Promise<number> {
    const [row = []] = await this.rows(`SELECT count(*), ${READ_WHOLE} FROM ${await this.files([file])}`);
    return Number(row[0]);
  }

  async matching(files: readonly LogFile[], condition: string): Promise<readonly LogFile[]> {
    const rows = await this.rows(`SELECT DISTINCT filename FROM ${await this.files(files)} WHERE ${condition}`);
    const paths = new Set(rows.map(([path]) => String(path)));
    return files.filter(({ name }) => paths.has(join(this.place.folder, name)));
  }

  /** Write files durably and move them to their places. Files without events are left out unless they may be empty. */
  async write(planned: readonly PlannedFile[]): Promise<readonly LogFile[]> {
    const written: LogFile[] = [];
    for (const plan of planned) {
      const file = await this.writeOne(plan);
      if (file) written.push(file);
    }
    return written;
  }

  private async writeOne({ name, source, day, query, mayBeEmpty }: PlannedFile): Promise<LogFile | null> {
    const draft = join(this.place.folder, WORK, basename(name));
    const options = '(FORMAT parquet, COMPRESSION zstd)';
    const result = await this.connection.run(`COPY (${query} ${ORDER}) TO ${quoted(draft)} ${options}`);
    const events = Number(result.rowsChanged);
    failpoint('log_written');
    if (events === 0 && !mayBeEmpty) {
      await rm(draft, { force: true });
      return null;
    }
    const { size } = await stat(draft);
    await this.place.put(draft, name);
    failpoint('log_placed');
    return { name, source, day, events, bytes: size };
  }

  private planned({ source, day }: Pick<LogFile, 'source' | 'day'>, query: string): PlannedFile {
    const folder = `source=${encodeURIComponent(source)}/day=${day}`;
    return { name: `${folder}/${this.token()}.parquet`, source, day, query };
  }

  private async append(table: string, columns: readonly (readonly (string | null)[])[]): Promise<void> {
    const { DuckDBDataChunk, VARCHAR } = await duckdb();
    const appender = await this.connection.createAppender(table);
    const rows = columns[0]?.length ?? 0;
    for (let from = 0; from < rows; from += 2_048) {
      const chunk = DuckDBDataChunk.create(columns.map(() => VARCHAR));
      chunk.setColumns(columns.map((column) => column.slice(from, from + 2_048)));
      appender.appendDataChunk(chunk);
    }
    appender.closeSync();
  }
}
