import type { Remark } from '../../src/kernel/remark.ts';

/**
 * Reads the result of a definition in a database that is only read. Snapshots, plans and the comparison are in another
 * engine. `rollcall/reader-contract` is the suite that every reader passes.
 *
 * A failure rejects with an error whose `code` is one of ours: `sql_failed`, `source_incomplete`, `engine_unreachable`,
 * `engine_failed`. Any other error counts as `engine_failed`.
 */
export interface Reader {
  /**
   * Checks a definition and resolves to its columns. Rows are read only once `batches` are, in a read-only session in
   * UTC. A new query ends the one before.
   */
  query(request: ReadRequest): Promise<ReadResult>;
  /** Returns the version, and problems that would keep it from working, for `rollcall doctor`. */
  examine(): Promise<readonly Remark[]>;
  close(): Promise<void>;
}

export interface ReadRequest {
  /** The definition as its author wrote it. */
  readonly sql: string;
  /** The value of `$now`, milliseconds since 1970. */
  readonly now: number;
  /** Cancels the query at the server. Reading then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

export interface ReadResult {
  readonly columns: readonly ReadColumn[];
  /**
   * Some thousands of rows at a time. It ends only where the server says that this was the last row. A cut, a limit or a
   * cancelled query is an error, never an end.
   */
  readonly batches: AsyncIterable<ReadBatch>;
}

/** Rows in the order of the columns; or their values by column, which costs less. */
export type ReadBatch =
  | readonly (readonly unknown[])[]
  | { readonly rows: number; readonly columns: readonly ValueList[] };

/** Values, or one text of those that are all text, if none is null and none has a line break: it parts them. */
export type ValueList = readonly unknown[] | string;

export interface ReadColumn {
  readonly name: string;
  /** The type as the database names it, for messages. */
  readonly type: string;
  readonly kind: ValueKind;
  /** The JSON type of the values, if the kind is `json` and it is known. */
  readonly json?: { readonly type: 'string' | 'number' | 'boolean'; readonly isList: boolean } | undefined;
}

/**
 * The form of a column's values, null aside:
 *
 * - `text`: a string, also for UUIDs, enums and times of day
 * - `integer`: a number, a bigint or its digits, also for decimals without places
 * - `decimal`: its digits, or a number
 * - `double`, `real`: a number or its text; 15 and 7 significant digits are sent
 * - `boolean`: true, false, 1 or 0
 * - `date`: `YYYY-MM-DD`
 * - `timestamp`: a `Date`, or `YYYY-MM-DD HH:MM:SS.sss` in UTC
 * - `json`: JSON text
 * - `binary`: bytes, which are neither ids nor values
 * - `any`: each value by its own JavaScript type, for databases whose columns have none. A whole number is an id only as
 *   a bigint
 */
export type ValueKind =
  | 'text'
  | 'integer'
  | 'decimal'
  | 'double'
  | 'real'
  | 'boolean'
  | 'date'
  | 'timestamp'
  | 'json'
  | 'binary'
  | 'any';

/** The circumstances in which a reader of type `module` is opened. */
export interface ReaderOptions {
  /** `options` of the engine in the configuration. */
  readonly options: Readonly<Record<string, unknown>>;
  /** The configuration's folder, against which relative paths are resolved. */
  readonly folder: string;
  /** Milliseconds after which the database itself should cancel a query, since our process may be gone. */
  readonly timeout?: number | undefined;
}

/** The `openReader` that such a module exports. It is called for each run, and the reader is closed afterwards. */
export type OpenModuleReader = (options: ReaderOptions) => Promise<Reader> | Reader;
