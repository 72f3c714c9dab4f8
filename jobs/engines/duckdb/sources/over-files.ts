import type { DuckdbConfig, TableConfig } from '../../../../src/config/config.ts';
import { RollcallError } from '../../../../src/kernel/errors.ts';
import type { Remark } from '../../../../src/kernel/remark.ts';
import { runsDefinition } from '../../plan/counts.ts';
import type { Definition, Engine, StageRequest } from '../../port.ts';
import { interruptible, type SqlSession } from '../../sql/session.ts';
import { readStatement } from '../../sql/statement.ts';
import { duckdbDialect } from '../dialect.ts';
import { brokenRecord, incompleteFile } from './csv-errors.ts';
import { insistOnGuesses } from './guesses.ts';
import type { LookOnce } from './looks.ts';
import { namedFiles } from './named-files.ts';
import { type FileTable, faultError, openTable, showTable } from './tables.ts';
import { findFault } from './text-source.ts';
import { type FileLooks, insistOnUnchanged, insistOnWhole, isTooLarge, printsOf } from './whole.ts';

/** The files that an engine's definitions may read. */
interface FileSource {
  readonly session: SqlSession;
  readonly config: Pick<DuckdbConfig, 'tables'>;
  readonly folder: string;
  readonly once: LookOnce;
  /** Locks the database before SQL runs that is not trusted. `known`: the files of `tables` that it names. */
  readonly confine?:
    | ((session: SqlSession, sql: string, asOf: number, known: readonly string[]) => Promise<void>)
    | undefined;
}

/**
 * An engine whose definitions read files: by the names of `tables`, which become views, or by naming them in SQL. Files
 * are whole and don't change while they are read, and no guess of their types is wrong.
 */
export function overFiles(engine: Engine, source: FileSource): Engine {
  const { session, once } = source;

  async function overThem<T>(
    { key, sql, asOf, signal }: Definition,
    reads: boolean,
    work: () => Promise<T>,
    undo = async (_done: T) => {},
  ) {
    const step = <R>(look: (looks: FileLooks) => Promise<R>): Promise<R> =>
      interruptible(session, signal, async (obeying) => {
        try {
          return await look({ session: obeying, folder: source.folder, once, signal });
        } catch (error) {
          if (!(error instanceof Error) || error.message.startsWith(`${key}: `)) throw error;
          const code = duckdbDialect.isIncomplete(error) ? 'source_incomplete' : 'sql_failed';
          const known = error instanceof RollcallError ? error.code : code;
          throw new RollcallError(known, `${key}: ${error.message}`, { cause: error });
        }
      });
    const { opened, prints } = await step(async (looks) => {
      const opened = await openNamed(looks, source.config.tables ?? {}, sql);
      await source.confine?.(
        looks.session,
        sql,
        asOf,
        opened.flatMap((table) => [...table.prints.keys()]),
      );
      const found = await namedFiles(looks.session, readStatement(sql, asOf));
      const ownPrints = await printsOf(
        looks.session,
        found.files.flatMap(({ files }) => files),
      );
      if (reads) await insistOnWhole(looks, ownPrints);
      await insistOnGuesses(looks, found, ownPrints);
      return { opened, prints: new Map([...ownPrints, ...opened.flatMap((table) => [...table.prints])]) };
    });
    let done: T;
    try {
      done = await work();
    } catch (error) {
      await step(async (looks) => {
        if (reads) await insistOnUnchanged(looks, prints);
        await explain(looks, error, opened, [...prints.keys()]);
      });
      throw error;
    }
    try {
      if (reads) await step((looks) => insistOnUnchanged(looks, prints));
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
  looks: FileLooks,
  tables: Readonly<Record<string, TableConfig>>,
  sql: string,
): Promise<readonly FileTable[]> {
  const words = new Set(sql.toLowerCase().match(/\w+/g));
  const opened: FileTable[] = [];
  for (const [name, config] of Object.entries(tables)) {
    if (!words.has(name.toLowerCase())) continue;
    const table = await openTable(looks, name, config);
    await showTable(looks.session, table);
    opened.push(table);
  }
  return opened;
}

/** Errors of values and files, which SQL that names other things can't have. */
const OF_VALUES = /^(Conversion|Invalid Input|Out of Range|IO) Error/;

/** @throws RollcallError if a file explains the error */
async function explain(
  { session, folder }: FileLooks,
  error: unknown,
  tables: readonly FileTable[],
  files: readonly string[],
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
export async function examineTables({ config, ...looks }: FileSource): Promise<readonly Remark[]> {
  const remarks: Remark[] = [];
  for (const [name, table] of Object.entries(config.tables ?? {})) {
    try {
      const { prints, sources } = await openTable(looks, name, table);
      const files = sources.flatMap((source) => source.files).length;
      remarks.push({ state: 'ok', message: `table ${name}: ${files === 1 ? 'a file' : `${files} files`}` });
      for (const file of prints.keys()) {
        if (!isTooLarge(file, prints)) continue;
        const message = `table ${name}: ${file} is too large to verify that it is whole. Write smaller files, or Parquet`;
        remarks.push({ state: 'warning', message });
      }
    } catch (error) {
      remarks.push({ state: 'failed', message: error instanceof Error ? error.message : String(error) });
    }
  }
  return remarks;
}
