import type { DuckdbConfig, TableConfig } from '../../../../src/config/config.ts';
import { RollcallError } from '../../../../src/kernel/errors.ts';
import type { Remark } from '../../../../src/kernel/remark.ts';
import { runsDefinition } from '../../plan/counts.ts';
import type { Definition, Engine, StageRequest } from '../../port.ts';
import type { SqlSession } from '../../sql/session.ts';
import { readStatement } from '../../sql/statement.ts';
import { brokenRecord, incompleteFile } from './csv-errors.ts';
import { insistOnGuesses } from './guesses.ts';
import { namedFiles } from './named-files.ts';
import { type FileTable, faultError, openTable, showTable } from './tables.ts';
import { findFault } from './text-source.ts';
import { insistOnUnchanged, insistOnWhole, type Prints, printsOf } from './whole.ts';

/**
 * An engine whose definitions read files: by the names of `tables`, which become views, or by naming them in SQL. Files
 * are whole and don't change while they are read, and no guess of their types is wrong.
 */
export function overFiles(engine: Engine, session: SqlSession, config: DuckdbConfig, folder: string): Engine {
  const { tables = {} } = config;

  async function overThem<T>(
    definition: Definition,
    reads: boolean,
    work: () => Promise<T>,
    undo = async (_done: T) => {},
  ) {
    const { key, sql, asOf } = definition;
    const named = async <R>(step: () => Promise<R>): Promise<R> => {
      try {
        return await step();
      } catch (error) {
        if (!(error instanceof RollcallError) || error.message.startsWith(`${key}: `)) throw error;
        throw new RollcallError(error.code, `${key}: ${error.message}`, { cause: error });
      }
    };
    const opened = await named(() => openNamed(session, tables, sql, folder));
    const found = await named(() => namedFiles(session, readStatement(sql, asOf)));
    const ownPrints = await printsOf(found.files.flatMap(({ files }) => files));
    const prints: Prints = new Map([...ownPrints, ...opened.flatMap((table) => [...table.prints])]);
    if (reads) await named(() => insistOnWhole(ownPrints, folder));
    await named(() => insistOnGuesses(session, found, folder));
    let done: T;
    try {
      done = await work();
    } catch (error) {
      if (reads) await named(() => insistOnUnchanged(prints, folder));
      await named(() => explain(session, error, opened, [...prints.keys()], folder));
      throw error;
    }
    try {
      if (reads) await named(() => insistOnUnchanged(prints, folder));
    } catch (error) {
      await undo(done);
      throw error;
    }
    return done;
  }

  /** A withdrawal or backfill reads no files. */
  const unlessIdle = <T>(request: StageRequest, work: () => Promise<T>, undo?: (done: T) => Promise<void>) =>
    runsDefinition(request) ? overThem(request, true, work, undo) : work();

  return {
    ...engine,
    stage: (request) =>
      unlessIdle(
        request,
        () => engine.stage(request),
        ({ plan }) => engine.discard(plan),
      ),
    preview: (request, size) => unlessIdle(request, () => engine.preview(request, size)),
    describe: (definition) => overThem(definition, false, () => engine.describe(definition)),
  };
}

/** Opens the tables that SQL names, and creates their views. */
async function openNamed(
  session: SqlSession,
  tables: Readonly<Record<string, TableConfig>>,
  sql: string,
  folder: string,
): Promise<readonly FileTable[]> {
  const words = new Set(sql.toLowerCase().match(/\w+/g));
  const opened: FileTable[] = [];
  for (const [name, config] of Object.entries(tables)) {
    if (!words.has(name.toLowerCase())) continue;
    const table = await openTable(session, name, config, folder);
    await showTable(session, table);
    opened.push(table);
  }
  return opened;
}

/** Errors of values and files, which SQL that names other things can't have. */
const OF_VALUES = /^(Conversion|Invalid Input|Out of Range|IO) Error/;

/** @throws RollcallError if a file explains the error */
async function explain(
  session: SqlSession,
  error: unknown,
  tables: readonly FileTable[],
  files: readonly string[],
  folder: string,
): Promise<void> {
  const { cause } = error as { readonly cause?: unknown };
  const message = cause instanceof Error ? cause.message : '';
  if (!OF_VALUES.test(message)) return;
  const sources = tables.flatMap((table) => table.sources);
  const forms = new Map(sources.flatMap(({ files, csv }) => files.map((file) => [file, csv] as const)));
  const broken = await brokenRecord(message, forms, folder);
  if (broken) throw broken;
  for (const source of sources) {
    const fault = await findFault(session, source).catch(() => null);
    if (fault) throw faultError(fault, folder);
  }
  if (error instanceof RollcallError && error.code === 'source_incomplete') await incompleteFile(error, message, files);
}

/** The state of each table, for `rollcall doctor`. */
export async function examineTables(
  session: SqlSession,
  config: DuckdbConfig,
  folder: string,
): Promise<readonly Remark[]> {
  const remarks: Remark[] = [];
  for (const [name, table] of Object.entries(config.tables ?? {})) {
    try {
      const { sources } = await openTable(session, name, table, folder);
      const files = sources.flatMap((source) => source.files).length;
      remarks.push({ state: 'ok', message: `table ${name}: ${files === 1 ? 'a file' : `${files} files`}` });
    } catch (error) {
      remarks.push({ state: 'failed', message: error instanceof Error ? error.message : String(error) });
    }
  }
  return remarks;
}
