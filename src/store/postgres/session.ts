import type { Dialect, ListTypes, Session, StoreTimes } from '../records/session.ts';
import { raw, type Sql, sql } from '../sql.ts';
import { hash, int8, storable, text } from './arrays.ts';
import type { StoreContext } from './context.ts';
import { backlogSince } from './counters.ts';
import type * as database from './database.ts';

const LISTS: { readonly [T in keyof ListTypes]: (values: readonly ListTypes[T][]) => Sql } = {
  text: (values) => sql`${text(values)}::text[]`,
  id: (values) => sql`${int8(values)}::bigint[]`,
  hash: (values) => sql`${hash(values)}::bytea[]`,
};

const POSTGRES: Dialect = {
  oneOf: (column, type, values) => sql`${column} = ANY (${LISTS[type](values)})`,
  // Unlike IN, an array is looked up in an index for each outer row.
  among: (column, query) => sql`${column} = ANY (ARRAY(${query}))`,
  rowsOf: (type, values) => sql`unnest(${LISTS[type](values)}) AS list (value)`,
  unhex: (digits) => sql`decode(${digits}, 'hex')`,
  jsonRows: (list) => sql`(SELECT * FROM json_array_elements(${list}::json) AS list (value))`,
  name: (value) => sql`${value}`,
  nameOf: (column) => column,
  contains: (column, text) => sql`strpos(${column}, ${text}) > 0`,
  startsWith: (column, prefix) => sql`left(${column}, length(${prefix})) = ${prefix}`,
  untriedIn: (lane) => sql`rank = ${lane}`,
  numberIn: (column, field) => sql`(${column}::json ->> ${raw(`'${field}'`)})::bigint`,
  using: () => raw(''),
  counted: (table) => raw(`ANALYZE rollcall.${table}`),
  forShare: raw('FOR SHARE'),
  forUpdate: raw('FOR UPDATE'),
};

export function sessionOf(context: StoreContext, on: database.DatabaseSession = context.db): Session {
  const { db, ids, suppressionKey: hashKey } = context;
  const session: Session = {
    dialect: POSTGRES,
    time: timesOf(db),
    // The holder of a lease may be on any machine: only the lease shows it.
    processes: { own: '', hasExited: () => false },
    ids,
    hashKey,
    get backlog() {
      return backlogSince(context.parts.since);
    },
    rows: (query) => on.rows(textOf(query), valuesOf(query)),
    run: (query) => on.run(textOf(query), valuesOf(query)),
    transaction: (work) =>
      on === db ? db.transaction((transaction) => work(sessionOf(context, transaction))) : work(session),
    dropNames: async () => undefined,
  };
  return session;
}

const textOf = (query: Sql) => query.text((n) => `$${n}`);
const valuesOf = ({ values }: Sql) => values.map((value) => (typeof value === 'string' ? storable(value) : value));

/** The database's clock decides, so times are written as distances from its now. */
function timesOf(db: StoreContext['db']): StoreTimes {
  const now = raw(db.now);
  return {
    now,
    at: (time) => sql`${now} + ${db.fromNow(time)}::bigint`,
    atWall: (time) => sql`${now} + ${db.fromWallNow(time)}::bigint`,
    read: (column) => db.read(column),
    wall: (time) => db.time.toWall(time),
  };
}
