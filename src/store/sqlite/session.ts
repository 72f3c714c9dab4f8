import type { CounterChanges } from '../changes.ts';
import { DeliveryIds } from '../delivery-ids.ts';
import type { EntryPlace, Name, QueueSession } from '../queue/session.ts';
import type { Dialect, ListTypes, StoreTimes } from '../records/session.ts';
import { raw, type Sql, sql } from '../sql.ts';
import { READY } from '../states.ts';
import type { Connection } from './connection.ts';
import { writeChanges } from './counters.ts';
import { supersede } from './queue/conflicts.ts';
import { nextDeliveryIds } from './queue/held-out.ts';

const NOTHING = raw('');

/** Pass hashes as hexadecimal digits: lists are JSON, which has no bytes. */
function listOf<T extends keyof ListTypes>(type: T, values: readonly ListTypes[T][]): Sql {
  if (type !== 'hash') return sql`SELECT value FROM json_each(${JSON.stringify(values)})`;
  const hashes = (values as readonly Buffer[]).map((hash) => hash.toString('hex'));
  return sql`SELECT unhex(value) AS value FROM json_each(${JSON.stringify(hashes)})`;
}

export const SQLITE: Dialect = {
  oneOf: (column, type, values) => sql`${column} IN (${listOf(type, values)})`,
  among: (column, query) => sql`${column} IN (${query})`,
  rowsOf: (type, values) => sql`(${listOf(type, values)}) AS list`,
  unhex: (digits) => sql`unhex(${digits})`,
  jsonRows: (list) => sql`json_each(${list})`,
  name: (value) => sql`(SELECT id FROM name WHERE value = ${value})`,
  nameOf: (column) => sql`(SELECT value FROM name WHERE id = ${column})`,
  contains: (column, text) => sql`instr(${column}, ${text}) > 0`,
  // As a range, which can use an index.
  startsWith: (column, prefix) => sql`${column} >= ${prefix} AND ${column} < ${`${prefix}\u{10ffff}`}`,
  untriedIn: (lane) => sql`(tries > 0) = 0 AND lane = ${lane}`,
  numberIn: (column, field) => sql`${column} ->> ${raw(`'${field}'`)}`,
  using: (index) => raw(`INDEXED BY ${index}`),
  counted: () => null,
  // A transaction has the whole file to itself.
  forShare: NOTHING,
  forUpdate: NOTHING,
};

/** SQLite has one schema only. */
export const textOf = (query: Sql): string => query.text(() => '?').replaceAll('rollcall.', '');

export class SqliteSession implements QueueSession {
  readonly dialect = SQLITE;
  readonly time: StoreTimes;
  private readonly db: Connection;

  /** @param ahead - milliseconds that the store's time is ahead of the wall clock, for times by the wall clock */
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

  /** Run `work` directly: each operation is in a transaction already. */
  transaction<T>(work: (session: QueueSession) => Promise<T>): Promise<T> {
    return work(this);
  }

  readonly entryColumns = raw('lane, due_at');
  readonly lane = raw('lane');
  readonly skipLocked = NOTHING;

  /** Return lane and due time. Deliveries due since they were accepted precede later ones. */
  entry(entry: EntryPlace): Sql {
    const { now } = this.time;
    return entry === 'new' ? sql`l.lane, ${now}` : sql`l.lane, min(l.accepted_at, ${now})`;
  }

  ready(destination: string, of: 'all' | 'tried', limit: number, condition = raw('true')): Sql {
    return readyOnes(destination, of === 'all' ? '(tries > 0) IN (0, 1)' : '(tries > 0) = 1', condition, limit);
  }

  waiting(destination: string, before: number, condition: Sql): readonly ((limit: number) => Sql)[] {
    return [(limit) => readyOnes(destination, '(tries > 0) = 0', sql`due_at <= ${before} AND ${condition}`, limit)];
  }

  async newIds(count: number): Promise<number[]> {
    return nextDeliveryIds(this.db, count);
  }

  async takeBack(destination: Name, conflicts: readonly string[], changes: CounterChanges<Name>): Promise<void> {
    for (const conflict of conflicts)
      supersede(this.db, conflict, destination as number, changes as CounterChanges<number>);
  }

  async write(changes: CounterChanges<Name>): Promise<void> {
    writeChanges(this.db, changes as CounterChanges<number>);
  }

  leaveNoTrace(): void {
    this.db.holdsTraces = true;
  }

  async dropNames(names: readonly string[]): Promise<void> {
    this.db.dropNames(names);
  }
}

function readyOnes(destination: string, tries: string, condition: Sql, limit: number): Sql {
  return sql`SELECT id FROM delivery INDEXED BY delivery_ready WHERE state = ${raw(`${READY}`)}
    AND destination = ${SQLITE.name(destination)} AND ${raw(tries)} AND lane IN (0, 1, 2) AND ${condition} LIMIT ${limit}`;
}

function timesAt(now: number, ahead: number): StoreTimes {
  return {
    now: sql`${now}`,
    at: (time) => sql`${time}`,
    atWall: (time) => sql`${time + ahead}`,
    read: (column) => column,
    wall: (time) => time - ahead,
  };
}
