import type { DuckdbConfig, EngineConfig } from '../../src/config/config.ts';
import type { Clock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { Remark } from '../../src/kernel/remark.ts';
import type { LoggedEvents } from '../event-log-access.ts';
import { openReader } from '../readers/open.ts';
import type { FileUse } from './duckdb/files.ts';
import type { Engine } from './port.ts';

interface OpenEngineOptions {
  readonly folder: string;
  readonly clock: Clock;
  /** The event log's files, if definitions may read them. */
  readonly eventLog?: LoggedEvents | null;
  /** True if the event log is in the engine's own database. */
  readonly seesEvents?: boolean;
  /** If true, only previews and look-ups follow, and nothing may be written. */
  readonly readOnly?: boolean;
  /** Milliseconds after which the database itself should cancel a statement, since our process may be gone. */
  readonly timeout?: number | undefined;
  /** Ends the wait for a file. If only reading, it also cancels what runs in the database. */
  readonly signal?: AbortSignal | undefined;
  readonly file?: FileUse | undefined;
  /** The engine in which definitions run, if that is only read. */
  readonly reads?: EngineConfig | undefined;
  /** Files that a single statement which is not trusted may not read. Only duckdb takes one. */
  readonly confined?: readonly string[] | undefined;
}

/** Installs the missing extensions of a duckdb engine. */
export async function installExtensions(config: Pick<DuckdbConfig, 'extensions'>): Promise<readonly Remark[]> {
  const { installMissing } = await import('./duckdb/lake.ts');
  return installMissing(config);
}

/** Opens the configured engine for one task. Each kind is loaded only if it is used. */
export type OpenEngine = (config: EngineConfig, options: OpenEngineOptions) => Promise<Engine>;

export const openEngine: OpenEngine = async (config, { reads: elsewhere, ...given }) => {
  const reads = elsewhere && (() => openReader(elsewhere, given));
  const options = { ...given, reads };
  switch (config.type) {
    case 'duckdb':
      return (await import('./duckdb/duckdb.ts')).openDuckdb(config, options);
    case 'postgres':
      return (await import('./postgres/postgres.ts')).openPostgres(config, options);
    case 'clickhouse':
      return (await import('./clickhouse/clickhouse.ts')).openClickhouse(config, options);
    case 'module':
      return (await import('./module.ts')).openModule(config, options);
    case 'mysql':
    case 'sqlite':
    case 'trino':
    case 'snowflake':
    case 'bigquery':
      throw new RollcallError('engine_unreachable', `An engine of type ${config.type} is only read.`);
  }
};
