import type { DeliveryIds } from '../delivery-ids.ts';
import type { Sql } from '../sql.ts';

export interface ListTypes {
  text: string;
  id: number;
  hash: Buffer;
}

export interface Dialect {
  oneOf<T extends keyof ListTypes>(column: Sql, type: T, values: readonly ListTypes[T][]): Sql;
  /** Condition: a column is in a subquery, which may refer to tables before it in a FROM clause. */
  among(column: Sql, query: Sql): Sql;
  /** Refreshes a table's statistics after a large change; null if the database does not need it. */
  counted(table: string): Sql | null;
  /** Values as rows of one column, `value`, for a FROM clause. */
  rowsOf<T extends keyof ListTypes>(type: T, values: readonly ListTypes[T][]): Sql;
  /** The value that stands for a name in the queue's tables, and the reverse. */
  name(value: string): Sql;
  nameOf(column: Sql): Sql;
  /** The bytes of hexadecimal digits. */
  unhex(digits: Sql): Sql;
  /** The items of a JSON list as rows of one column, `value`, for a FROM clause that names it. */
  jsonRows(list: string): Sql;
  contains(column: Sql, text: string | Sql): Sql;
  startsWith(column: Sql, prefix: string): Sql;
  untriedIn(lane: number): Sql;
  /** A number field of a JSON text. */
  numberIn(column: Sql, field: string): Sql;
  /** Makes a query use an index if the planner can't be trusted to. */
  using(index: string): Sql;
  /** Locks a query's rows against other writers, or against everyone, until the transaction ends. */
  readonly forShare: Sql;
  readonly forUpdate: Sql;
}

/** Conversion of store times to and from SQL: one database has a clock of its own. */
export interface StoreTimes {
  readonly now: Sql;
  at(time: number | null): Sql;
  atWall(time: number): Sql;
  /** A time column to select as store time. */
  read(column: Sql): Sql;
  /** Convert a store time to the time by the wall clock. */
  wall(time: number): number;
}

/** The processes that hold leases, as far as this one can see them. */
interface Processes {
  readonly own: string;
  hasExited(holder: string): boolean;
}

/**
 * A session of either database, for records. SQL names tables as `rollcall.run`. On SQLite everything runs in the
 * store's thread, within its group's transaction, and promises are already resolved: a verb may await nothing else.
 */
export interface Session {
  readonly dialect: Dialect;
  readonly time: StoreTimes;
  readonly processes: Processes;
  /** Converts delivery ids, which begin with the store's own id. */
  readonly ids: DeliveryIds;
  /** Key of the hashes that stand in for users. */
  readonly hashKey: string;
  /** Counters of destinations, for a FROM clause; a destination may have several rows. */
  readonly backlog: Sql;
  rows<T extends readonly unknown[]>(query: Sql): Promise<T[]>;
  /** Resolves to the number of changed rows. */
  run(query: Sql): Promise<number>;
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** Notes that these names are no longer needed. */
  dropNames(names: readonly string[]): Promise<void>;
}

export type OverSession<P> = {
  readonly [N in keyof P]: P[N] extends (...given: infer A) => infer R ? (session: Session, ...given: A) => R : never;
};
