import { DeliveryIds } from '../delivery-ids.ts';
import type { Dialect, ListTypes, Session, Times } from '../records/session.ts';
import { raw, type Sql, sql } from '../sql.ts';
import type { Connection } from './connection.ts';

const NOTHING = raw('');

/** Lists are JSON, which has no bytes. */
function listOf<T extends keyof ListTypes>(type: T, values: readonly ListTypes[T][]): Sql {
  if (type !== 'hash') return sql`SELECT value FROM json_each(${JSON.stringify(values)})`;
  const hashes = (values as readonly Buffer[]).map((hash) => hash.toString('hex'));
  return sql`SELECT unhex(value) AS value FROM json_each(${JSON.stringify(hashes)})`;
}

export const SQLITE: Dialect = {
  oneOf: (column, type, values) => sql`${column} IN (${listOf(type, values)})`,
  among: (column, query) => sql`${column} IN (${query})`,
  rowsOf: (type, values) => sql`(${listOf(type, values)}) AS list`,
  jsonRows: (list) => sql`json_each(${list})`,
  name: (value) => sql`(SELECT id FROM name WHERE value = ${value})`,
  nameOf: (column) => sql`(SELECT value FROM name WHERE id = ${column})`,
  contains: (column, text) => sql`instr(${column}, ${text}) > 0`,
  // As a range, which an index knows how to find.
  startsWith: (column, prefix) => sql`${column} >= ${prefix} AND ${column} < ${`${prefix}\u{10ffff}`}`,
  untriedIn: (lane) => sql`(tries > 0) = 0 AND lane = ${lane}`,
  numberIn: (column, field) => sql`${column} ->> ${raw(`'${field}'`)}`,
  using: (index) => raw(`INDEXED BY ${index}`),
  // A transaction has the whole file to itself.
  forShare: NOTHING,
  forUpdate: NOTHING,
};

/** SQLite has one schema only. */
export const textOf = (query: Sql): string => query.text(() => '?').replaceAll('rollcall.', '');

export class SqliteSession implements Session {
  readonly dialect = SQLITE;
  readonly time: Times;
  private readonly db: Connection;

  /** @param ahead - how far the store's time is ahead of the wall clock, for what is in the wall clock's */
  constructor(db: Connection, now: number, ahead = 0) {
    this.db = db;
    this.time = timesAt(now, ahead);
  }

  get processes() {
    return this.db.holders;
  }

  get ids(): DeliveryIds {
    return new DeliveryIds(this.db.meta('store') ?? '');
  }

  get hashKey(): string {
    return this.db.meta('suppression_key') ?? '';
  }

  readonly backlog = raw('rollcall.backlog');

  // Bound, since verbs take them out of the session.
  readonly rows = async <T extends readonly unknown[]>(query: Sql): Promise<T[]> =>
    this.db.tuples(textOf(query), ...query.values) as unknown as T[];

  readonly run = async (query: Sql): Promise<number> => this.db.run(textOf(query), ...query.values);

  /** The operation is one already. */
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return work(this);
  }

  async dropNames(names: readonly string[]): Promise<void> {
    this.db.dropNames(names);
  }
}

function timesAt(now: number, ahead: number): Times {
  const plain = <T extends number | null>(time: T): T => time;
  const wall = (time: number | null) => (time === null ? null : time - ahead);
  return {
    now: sql`${now}`,
    at: (time) => sql`${time}`,
    atWall: (time) => sql`${time + ahead}`,
    read: (column) => column,
    local: plain as Times['local'],
    wall: wall as Times['wall'],
  };
}
