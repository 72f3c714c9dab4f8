import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { DuckdbConfig } from '../../../src/config/config.ts';
import type { Clock } from '../../../src/kernel/clock.ts';
import type { Remark } from '../../../src/kernel/remark.ts';
import { namedViews } from '../../../src/store/events/views.ts';
import type { LoggedEvents } from '../../event-log-access.ts';
import { type OpenReader, readElsewhere } from '../../readers/read-elsewhere.ts';
import type { Engine } from '../port.ts';
import { createSqlEngine } from '../sql/engine.ts';
import { cancelledBy, type SqlSession } from '../sql/session.ts';
import { readStatement } from '../sql/statement.ts';
import { addIdHashes, createRegistry, isComplete, tablesOf } from '../sql/tables.ts';
import { CONFINED, confine } from './confined.ts';
import { duckdbDialect } from './dialect.ts';
import { emptyFile } from './empty-files.ts';
import { eventsOf, showEvents } from './event-log.ts';
import { withFileLock, withLock } from './file-lock.ts';
import type { FileUse } from './files.ts';
import { LAKE_SETTINGS, lakeError, lakeStatements, withoutSecrets } from './lake.ts';
import { scrubFile } from './scrub.ts';
import { openSession } from './session.ts';
import { looksOf } from './sources/looks.ts';
import { examineTables, overFiles } from './sources/over-files.ts';

const USUAL: FileUse = { sharesReading: true, patience: 10_000 };

interface DuckdbOptions {
  /** The folder against which relative paths in SQL are resolved. */
  readonly folder: string;
  readonly clock: Clock;
  /** If true, nothing is written, not even the file itself. */
  readonly readOnly?: boolean;
  /** The event log, if definitions may read it through views such as `events`. */
  readonly eventLog?: LoggedEvents | null;
  readonly file?: FileUse | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Opens the database in which definitions run, if it is another. */
  readonly reads?: OpenReader | undefined;
  /** Set for a single statement that is not trusted: files that it may not read. It sees none of the engine's tables. */
  readonly confined?: readonly string[] | undefined;
}

/**
 * The embedded engine: definitions run in DuckDB, over its own tables or any file that it reads. Open it only while it
 * is needed, because DuckDB locks its file for one process.
 *
 * @throws RollcallError `engine_unreachable`
 */
export async function openDuckdb(
  configured: DuckdbConfig,
  { folder, clock, readOnly = false, eventLog = null, file = USUAL, signal, reads, confined }: DuckdbOptions,
): Promise<Engine> {
  const config = confined ? { ...configured, path: ':memory:' } : configured;
  // A preview of what a first sync would do must not create the file.
  const hide = withoutSecrets(config);
  const nothingYet = readOnly && config.path !== ':memory:' && !existsSync(config.path);
  const opened = await openSession({
    ...file,
    path: nothingYet ? ':memory:' : config.path,
    readOnly: readOnly && file.sharesReading && !nothingYet && config.path !== ':memory:',
    settings: {
      // A comma-separated list. If empty, it is the working directory, which commands set to that folder.
      file_search_path: folder.includes(',') ? '' : folder,
      // An in-memory database would spill into the working directory.
      temp_directory: `${config.path === ':memory:' ? join(folder, 'duckdb') : config.path}.tmp`,
      ...LAKE_SETTINGS,
      ...(config.memoryLimit === null ? {} : { memory_limit: config.memoryLimit }),
      ...(config.threads === null ? {} : { threads: String(config.threads) }),
      ...(confined ? CONFINED : {}),
    },
    setup: {
      // With a statement, the database is no other's.
      statements: [...(confined ? ["SET GLOBAL temp_directory = ''"] : []), ...lakeStatements(config)],
      failed: (statement, error) => lakeError(statement, hide(error instanceof Error ? error.message : String(error))),
    },
    clock,
    signal,
    hide,
  });
  const session = { ...(readOnly ? cancelledBy(signal, opened) : opened), schema: config.schema };
  const shared = config.path !== ':memory:';
  const history = (table: string) => [addIdHashes(table)];
  // DuckDB fails all but one of the sessions that create a table at once. A separate lock doesn't wait for other work.
  if (shared && !readOnly && !(await isComplete(session))) {
    await withLock(`${config.path}: tables`, 'exclusive', () =>
      createRegistry(session, history(tablesOf(session).history)),
    );
  }
  const engine = createSqlEngine({
    ...(eventLog && !confined ? { events: eventsOf(session, eventLog) } : {}),
    dialect: duckdbDialect,
    session,
    writable: !readOnly,
    emptySource: (error, sql) => emptyFile(session, error, sql),
    tuned: { plan: () => [], members: () => [], history },
    scrub: (tables) => scrubFile(session, clock, tables),
  });
  const confineTo = async (own: SqlSession, sql: string, asOf: number, known: readonly string[]) => {
    const views = namedViews(sql);
    const logged = eventLog && views.size > 0 ? await showEvents(session, eventLog, views) : [];
    await confine(own, readStatement(sql, asOf), { folder, secret: confined ?? [], known: [...known, ...logged] });
  };
  const confining = confined ? { confine: confineTo } : {};
  const files = { session, config, folder, once: looksOf(session, !readOnly), ...confining };
  const whole = overFiles(engine, files);
  const locked = {
    ...(shared && !nothingYet ? withFileLock(whole, config.path) : whole),
    examine: async () => [...(await examine(session)), ...(await examineTables(files))],
  };
  if (!reads) return locked;
  return readElsewhere(
    { engine: locked, session, staging: () => ({ kind: 'TEMPORARY', table: 'rollcall_rows' }) },
    reads,
  );
}

async function examine(session: SqlSession): Promise<readonly Remark[]> {
  const [[version, memory, threads] = []] = await session.rows(
    "SELECT version(), current_setting('memory_limit'), current_setting('threads')::varchar",
  );
  return [{ state: 'ok', message: `DuckDB ${version}: ${memory} of memory, threads: ${threads}` }];
}
