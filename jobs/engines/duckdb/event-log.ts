import { eventsOf as tailEvents } from '../../../src/store/events/columns.ts';
import { readable } from '../../../src/store/events/readable.ts';
import {
  ALL_VIEWS,
  DUCKDB_VIEWS,
  EVENT_COLUMNS,
  eventViews,
  intervalOf,
  likelyAt,
} from '../../../src/store/events/views.ts';
import type { LoggedEvents } from '../../event-log-access.ts';
import { literal, name } from '../sql/plan-query.ts';
import type { SqlDatabase } from '../sql/session.ts';
import type { DuckdbSession } from './session.ts';

/** The prefix of all our names, since tables in the engine's file may have the short ones. */
const PREFIX = 'rollcall_';
const PARTS = 'rollcall_tail_parts';
const TAIL = 'rollcall_tail';
const IDENTITIES = 'rollcall_known_identities';

const GONE = /No files found|No such file|Cannot open file|Could not open file/;

const LACKING = new RegExp(`Table with name (${[...ALL_VIEWS].join('|')}) does not exist`, 'i');

export function eventsOf(session: DuckdbSession, log: LoggedEvents): NonNullable<SqlDatabase['events']> {
  return {
    show: (views) => showEvents(session, log, views),
    isLacking: (error) => error instanceof Error && LACKING.test(error.message),
    isReplaced: (error) => error instanceof Error && error.message.includes(log.folder) && GONE.test(error.message),
  };
}

/**
 * Creates temporary views, which only this session sees, over the log's files and a copy of its tail. Creates only
 * named views and those that they read, since making all of them takes longer than most definitions. Resolves to the
 * log's files.
 */
export async function showEvents(
  session: DuckdbSession,
  log: LoggedEvents,
  views: ReadonlySet<string>,
): Promise<readonly string[]> {
  await session.run(`CREATE OR REPLACE TEMP TABLE ${PARTS} (source VARCHAR, bodies VARCHAR)`);
  const files = await log.read({
    restart: () => session.run(`DELETE FROM ${PARTS}`),
    add: async (parts) =>
      session.append(PARTS, [parts.map(({ source }) => source), parts.map(({ bodies }) => readable(bodies))]),
  });
  await session.run(`CREATE OR REPLACE TEMP TABLE ${TAIL} AS SELECT * EXCLUDE rest FROM (${tailEvents(PARTS)})`);
  await session.run(`DROP TABLE temp.${PARTS}`);
  const taken = await ownNames(session);
  const named = [...views].filter((name) => !taken.has(name));
  const needed = new Set(named.map((name) => (name.startsWith(PREFIX) ? name : `${PREFIX}${name}`)));
  const all = [{ name: 'events', query: () => allEvents(files, log.keep) }, ...eventViews(DUCKDB_VIEWS)];
  // Each comes after those that it reads.
  const statements = all.toReversed().flatMap(({ name, query }) => {
    if (!needed.has(`${PREFIX}${name}`)) return [];
    const own = query((other) => {
      needed.add(`${PREFIX}${other}`);
      return `${PREFIX}${other}`;
    });
    // Compiled definitions, which name it so, read it once for each condition and more: its links are followed once.
    const isKept = name === 'identities' && named.includes(`${PREFIX}${name}`);
    const short = named.includes(name) ? [`CREATE OR REPLACE TEMP VIEW ${name} AS FROM ${PREFIX}${name}`] : [];
    return [
      ...short,
      `CREATE OR REPLACE TEMP VIEW ${PREFIX}${name} AS ${isKept ? `FROM temp.${IDENTITIES}` : own}`,
      ...(isKept ? [`CREATE OR REPLACE TEMP TABLE ${IDENTITIES} AS ${own}`] : []),
    ];
  });
  for (const statement of statements.toReversed()) await session.run(statement);
  return files;
}

async function ownNames(session: DuckdbSession): Promise<ReadonlySet<string>> {
  const rows = await session.rows(
    `SELECT lower(table_name) FROM duckdb_tables() WHERE NOT temporary AND NOT internal
     UNION ALL SELECT lower(view_name) FROM duckdb_views() WHERE NOT temporary AND NOT internal`,
  );
  return new Set(rows.map(([found]) => String(found)));
}

function allEvents(files: readonly string[], keep: number): string {
  const columns = EVENT_COLUMNS.map((column) => {
    if (column === 'likely_at') return `${likelyAt(intervalOf(keep))} AS likely_at`;
    return JSON_COLUMNS.has(column) ? `CAST(${column} AS JSON) AS ${column}` : name(column);
  }).join(', ');
  const tail = `SELECT ${columns} FROM temp.${TAIL}`;
  if (files.length === 0) return tail;
  return `SELECT ${columns} FROM ${parquet(files)} UNION ALL ${tail}`;
}

const JSON_COLUMNS: ReadonlySet<string> = new Set(['properties', 'traits', 'context']);

function parquet(files: readonly string[]): string {
  const types = "{'source': VARCHAR, 'day': DATE}";
  return `read_parquet([${files.map(literal).join(', ')}], hive_partitioning = true, hive_types = ${types})`;
}
