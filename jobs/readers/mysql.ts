import type { MysqlConfig } from '../../src/config/config.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { interruptedBy } from '../engines/insist.ts';
import { loadPeer } from '../engines/peer-package.ts';
import { authoredPlace, MYSQL, placeOfName, singleStatement } from '../engines/sql/statement.ts';
import { definitionError } from './errors.ts';
import type { ReadColumn, Reader, ReadRequest, ReadResult, ValueKind } from './port.ts';

/** The part of `mysql2` that is used. Users of such an engine install it themselves. */
interface Driver {
  createConnection(options: object): MysqlConnection;
}

interface MysqlConnection {
  readonly threadId: number;
  connect(done: (error: Error | null) => void): void;
  query(sql: string, done: (error: Error | null, rows: unknown[][]) => void): unknown;
  query(options: object): { stream(options: object): Rows };
  prepare(sql: string, done: (error: Error | null, statement: MysqlStatement) => void): void;
  on(event: 'error', listener: (error: Error) => void): void;
  off(event: 'error', listener: (error: Error) => void): void;
  destroy(): void;
}

/** `read` gives the next row if it has arrived. */
type Rows = AsyncIterable<unknown[]> & { read(): unknown[] | null; destroy(error: Error): void };

interface MysqlStatement {
  readonly columns: readonly DriverColumn[];
  close(): void;
}

interface DriverColumn {
  readonly name: string;
  readonly columnType: number;
  readonly columnLength: number;
  readonly characterSet: number;
  readonly decimals: number;
}

const CONNECT_TIMEOUT = 10_000;
/** Milliseconds after our own time limit, for queries whose process is gone. */
const GRACE = 30_000;
/** The try to cancel at which the connection itself is closed. */
const LAST_TRY = 20;
const BATCH = 5_000;
const CHARACTERS = 4_000_000;
/** Warnings that say that a result was cut: by `group_concat_max_len`, by LIMIT ROWS EXAMINED. */
const CUT = new Set([1260, 1931]);

/** Nothing here ends a result early without an error. */
const SESSION = [
  "SET SESSION time_zone = '+00:00', sql_select_limit = 18446744073709551615, net_write_timeout = 31536000",
  "SET SESSION group_concat_max_len = 1073741824, sql_mode = replace(@@sql_mode, 'NO_BACKSLASH_ESCAPES', '')",
  'SET SESSION TRANSACTION READ ONLY',
];

interface MysqlOptions {
  readonly folder: string;
  readonly timeout?: number | undefined;
}

/** Reads a MySQL or MariaDB. @throws RollcallError `engine_unreachable` */
export async function openMysql({ url, options }: MysqlConfig, { folder, timeout }: MysqlOptions): Promise<Reader> {
  const driver = (await loadPeer('mysql2', { folder, type: 'mysql' })) as Driver;
  const host = URL.parse(url)?.host ?? 'the server';
  let open: MysqlConnection | null = null;

  async function connect(): Promise<MysqlConnection> {
    const connection = driver.createConnection({ connectTimeout: CONNECT_TIMEOUT, ...options, ...DRIVER, uri: url });
    // Without a listener, a connection that breaks would end the process.
    connection.on('error', () => {});
    try {
      await done<void>((resolve) => connection.connect((error) => resolve(error)));
      const [[version] = []] = await ask(connection, 'SELECT VERSION()');
      const limit = timeout === undefined ? 0 : timeout + GRACE;
      const isMaria = String(version).includes('MariaDB');
      const longest = isMaria ? `max_statement_time = ${limit / 1_000}` : `max_execution_time = ${limit}`;
      for (const statement of [...SESSION, `SET SESSION ${longest}`]) await ask(connection, statement);
      if (isMaria) await ask(connection, 'SET SESSION max_recursive_iterations = 4294967295');
      return connection;
    } catch (error) {
      connection.destroy();
      throw unreachable(host, error);
    }
  }

  async function connected(): Promise<MysqlConnection> {
    open ??= await connect();
    return open;
  }

  function close(): void {
    open?.destroy();
    open = null;
  }

  /** Cancels at the server, by a second connection. */
  function canceller({ threadId }: MysqlConnection): () => void {
    let tries = 0;
    return () => {
      tries += 1;
      if (tries === LAST_TRY) close();
      if (tries < LAST_TRY) void kill(threadId).catch(() => {});
    };
  }

  async function kill(thread: number): Promise<void> {
    const connection = driver.createConnection({ connectTimeout: CONNECT_TIMEOUT, ...options, ...DRIVER, uri: url });
    connection.on('error', () => {});
    try {
      await ask(connection, `KILL QUERY ${thread}`);
    } finally {
      connection.destroy();
    }
  }

  async function query({ sql, now, signal }: ReadRequest): Promise<ReadResult> {
    const moment = `TIMESTAMP'${new Date(now).toISOString().replace('T', ' ').replace('Z', '')}'`;
    const statement = singleStatement(sql, moment, MYSQL);
    const failed = (error: unknown) => {
      if (isLost(error)) close();
      return meaningOf(error, { host, sql, statement, moment });
    };
    const connection = await connected();
    const cancel = canceller(connection);
    const until = async <T>(work: () => Promise<T>): Promise<T> => {
      try {
        return await (signal ? interruptedBy(signal, cancel, work) : work());
      } catch (error) {
        signal?.throwIfAborted();
        throw failed(error);
      }
    };
    const prepared = await until(() => done<MysqlStatement>((resolve) => connection.prepare(statement, resolve)));
    prepared.close();

    async function* batches() {
      const rows = connection.query({ sql: statement, rowsAsArray: true, typeCast }).stream({ highWaterMark: BATCH });
      const reading = rows[Symbol.asyncIterator]();
      // The stream itself never notices that the connection is gone.
      const lost = (error: Error) => rows.destroy(error);
      connection.on('error', lost);
      let isWhole = false;
      try {
        for (let last = false; !last; ) {
          const batch: unknown[][] = [];
          last = await until(() => fill(batch, rows, reading));
          if (batch.length > 0) yield batch;
        }
        const warnings = await until(() => ask(connection, 'SHOW WARNINGS'));
        const cut = warnings.find(([, code]) => CUT.has(Number(code)));
        if (cut) throw new RollcallError('source_incomplete', `MySQL cut the result: ${cut[2]}.`);
        isWhole = true;
      } finally {
        connection.off('error', lost);
        // What is left of a result would be read first, and the server doesn't notice that nobody reads it.
        if (!isWhole && open === connection) {
          await kill(connection.threadId).catch(() => {});
          close();
        }
      }
    }
    return { columns: prepared.columns.map(readColumn), batches: batches() };
  }

  return {
    query,
    async examine() {
      const connection = await connected();
      const [[version, user] = []] = await ask(connection, 'SELECT VERSION(), CURRENT_USER()');
      return [
        {
          state: 'ok',
          message: `${String(version).includes('MariaDB') ? '' : 'MySQL '}${version}, read only, as ${user}`,
        },
      ];
    },
    close: async () => close(),
  };
}

/** Texts of rows are read as they are: numbers and times would lose digits. */
const DRIVER = {
  multipleStatements: false,
  rowsAsArray: true,
  dateStrings: true,
  supportBigNumbers: true,
  bigNumberStrings: true,
};
const typeCast = (field: { string(): string | null }) => field.string();

/** Reads rows into a batch; true after the last one. */
async function fill(batch: unknown[][], rows: Rows, reading: AsyncIterator<unknown[]>): Promise<boolean> {
  for (let characters = 0; batch.length < BATCH && characters < CHARACTERS; ) {
    // Only rows that have not arrived are waited for: a promise for each costs more than to read it.
    const row = rows.read();
    const { value, done } = row === null ? await reading.next() : { value: row, done: false };
    if (done) return true;
    batch.push(value);
    for (const text of value) characters += typeof text === 'string' ? text.length : 0;
  }
  return false;
}

function done<T>(begin: (resolve: (error: Error | null, value: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    begin((error, value) => (error ? reject(error) : resolve(value)));
  });
}

const ask = (connection: MysqlConnection, sql: string) =>
  done<unknown[][]>((resolve) => connection.query(sql, resolve));

/** Types of the protocol, with their names in SQL. */
const TYPES: Readonly<Record<number, readonly [string, ValueKind]>> = {
  0: ['decimal', 'decimal'],
  1: ['tinyint', 'integer'],
  2: ['smallint', 'integer'],
  3: ['int', 'integer'],
  4: ['float', 'real'],
  5: ['double', 'double'],
  6: ['null', 'text'],
  7: ['timestamp', 'timestamp'],
  8: ['bigint', 'integer'],
  9: ['mediumint', 'integer'],
  10: ['date', 'date'],
  11: ['time', 'text'],
  12: ['datetime', 'timestamp'],
  13: ['year', 'integer'],
  14: ['date', 'date'],
  16: ['bit', 'binary'],
  245: ['json', 'json'],
  246: ['decimal', 'decimal'],
  247: ['enum', 'text'],
  248: ['set', 'text'],
  255: ['geometry', 'binary'],
};
/** The character set of columns that hold bytes. */
const BYTES = 63;

function readColumn({ name, columnType, columnLength, characterSet, decimals }: DriverColumn): ReadColumn {
  const [type, kind] = TYPES[columnType] ?? (characterSet === BYTES ? ['binary', 'binary'] : ['text', 'text']);
  if (columnType === 1 && columnLength === 1) return { name, type: 'boolean', kind: 'boolean' };
  return { name, type, kind: kind === 'decimal' && decimals === 0 ? 'integer' : kind };
}

interface MysqlFailure {
  readonly message: string;
  readonly errno?: number;
  readonly code?: string;
  readonly fatal?: boolean;
}

/** Failures that other SQL would not fix: cancelled, out of time, memory, disk or connections, waits for locks. */
const NOT_ITS_FAULT = new Set([3, 1021, 1026, 1028, 1037, 1038, 1041, 1135, 1205, 1213, 1226, 1317, 1969, 3024, 3168]);
/** The server is going away. */
const ENDING = new Set([1053, 1077, 1079, 1080, 1158, 1159, 1160, 1161, 1927]);

const isLost = (error: unknown) => {
  const { fatal, code = '', errno = 0 } = error as MysqlFailure;
  return fatal === true || ENDING.has(errno) || /^(PROTOCOL_|ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EHOST)/.test(code);
};

function unreachable(host: string, error: unknown): RollcallError {
  const { message, code = '' } = error as MysqlFailure;
  return new RollcallError('engine_unreachable', `Can't work with MySQL at ${host}: ${message || code}.`, {
    cause: error,
  });
}

function meaningOf(
  error: unknown,
  asked: { readonly host: string; readonly sql: string; readonly statement: string; readonly moment: string },
): unknown {
  if (error instanceof RollcallError || !(error instanceof Error)) return error;
  if (isLost(error)) return unreachable(asked.host, error);
  const { message, errno = 0 } = error as MysqlFailure;
  if (errno === 0 || NOT_ITS_FAULT.has(errno))
    return new RollcallError('engine_failed', `${message}.`, { cause: error });
  return definitionError(error, { sql: asked.sql, place: placeOf(message, asked) });
}

function placeOf(
  message: string,
  asked: { readonly sql: string; readonly statement: string; readonly moment: string },
): number | null {
  const { sql, statement, moment } = asked;
  const rest = /near '([\s\S]*)' at line \d+$/.exec(message)?.[1];
  if (rest !== undefined) {
    const at = rest === '' ? statement.length : statement.indexOf(rest);
    const isSure = at >= 0 && (rest === '' || statement.lastIndexOf(rest) === at);
    return isSure ? authoredPlace(sql, moment, at, MYSQL) : null;
  }
  const name = /^(?:Unknown column|Table|FUNCTION) '?([^' ]+)'?/.exec(message)?.[1];
  if (name === undefined) return null;
  return placeOfName(sql, name, MYSQL) ?? placeOfName(sql, name.slice(name.indexOf('.') + 1), MYSQL);
}
