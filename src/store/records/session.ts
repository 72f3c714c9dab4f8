import type { DeliveryIds } from '../delivery-ids.ts';
import type { Sql } from '../sql.ts';

/** Types of the values in a list. */
export interface ListTypes {
  text: string;
  id: number;
  hash: Buffer;
}

/** SQL that the databases write differently. */
export interface Dialect {
  /** That a column is one of these. */
  oneOf<T extends keyof ListTypes>(column: Sql, type: T, values: readonly ListTypes[T][]): Sql;
  /** That a column is one of what a query gives, which may ask for rows of tables before it in a FROM clause. */
  among(column: Sql, query: Sql): Sql;
  /** Has the database count again what a table is like, once much of it is new; null where it does not go by that. */
  counted(table: string): Sql | null;
  /** These as rows of one column, `value`, for a FROM clause. */
  rowsOf<T extends keyof ListTypes>(type: T, values: readonly ListTypes[T][]): Sql;
  /** The value that stands for a name in the queue's tables, and the name of such a column. */
  name(value: string): Sql;
  nameOf(column: Sql): Sql;
  /** The items of a JSON list as rows of one column, `value`, for a FROM clause that names it. */
  jsonRows(list: string): Sql;
  contains(column: Sql, text: string | Sql): Sql;
  startsWith(column: Sql, prefix: string): Sql;
  /** That a delivery was never tried and is in this lane. */
  untriedIn(lane: number): Sql;
  /** A number in a JSON text. */
  numberIn(column: Sql, field: string): Sql;
  /** Makes a query use an index where the planner can't be trusted to. */
  using(index: string): Sql;
  /** Has a query lock its rows, against other writers or against everyone, until the transaction ends. */
  readonly forShare: Sql;
  readonly forUpdate: Sql;
}

/** How times of the store go into SQL and come back: one database has a clock of its own. */
export interface StoreTimes {
  readonly now: Sql;
  at(time: number | null): Sql;
  /** As `at`, of a time by the wall clock. */
  atWall(time: number): Sql;
  /** A time column to select. `local` makes the store's time of what comes back, `wall` the wall clock's. */
  read(column: Sql): Sql;
  local(read: number): number;
  local(read: number | null): number | null;
  wall(read: number): number;
  wall(read: number | null): number | null;
}

/** The processes that hold leases, as far as this one can see them. */
interface Processes {
  /** Stands for this process. */
  readonly own: string;
  hasExited(holder: string): boolean;
}

/**
 * A session of either database, for records. SQL names tables as `rollcall.run`. On SQLite all this happens in the store's thread,
 * within the transaction of its group, and the promises are resolved already: so a verb may await nothing else.
 */
export interface Session {
  readonly dialect: Dialect;
  readonly time: StoreTimes;
  readonly processes: Processes;
  /** Names deliveries: the store's own id is the first half of theirs. */
  readonly ids: DeliveryIds;
  /** The key of the hashes that stand for users. */
  readonly hashKey: string;
  /** The counters of destinations, for a FROM clause; a destination may have several rows. */
  readonly backlog: Sql;
  rows<T extends readonly unknown[]>(query: Sql): Promise<T[]>;
  /** The number of rows changed. */
  run(query: Sql): Promise<number>;
  /** All of `work` or nothing of it. */
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** Says that nothing needs these names any more. */
  dropNames(names: readonly string[]): Promise<void>;
}

/** The verbs of a port as functions over a session. */
export type OverSession<P> = {
  readonly [N in keyof P]: P[N] extends (...given: infer A) => infer R ? (session: Session, ...given: A) => R : never;
};
