import type { EngineConfig } from '../../src/config/config.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { openModuleReader } from './module.ts';
import type { Reader } from './port.ts';

interface OpenReaderOptions {
  readonly folder: string;
  /** Milliseconds after which the database itself should cancel a query, since our process may be gone. */
  readonly timeout?: number | undefined;
  /** True if the event log is in the engine's own database. */
  readonly seesEvents?: boolean;
}

/** Opens an engine to read only. Each kind is loaded only if it is used. */
export async function openReader(config: EngineConfig, options: OpenReaderOptions): Promise<Reader> {
  switch (config.type) {
    case 'postgres':
      return (await import('./postgres.ts')).openPostgresReader(config, options);
    case 'mysql':
      return (await import('./mysql.ts')).openMysql(config, options);
    case 'sqlite':
      return (await import('./sqlite.ts')).openSqlite(config);
    case 'module':
      return openModuleReader(config, options);
    case 'trino':
      return (await import('./trino.ts')).openTrino(config, options);
    case 'snowflake':
      return (await import('./snowflake.ts')).openSnowflake(config, options);
    case 'bigquery':
      return (await import('./bigquery.ts')).openBigquery(config, options);
    case 'clickhouse':
      return (await import('./clickhouse.ts')).openClickhouseReader(config, options);
    case 'duckdb':
      throw new RollcallError('engine_unreachable', `An engine of type ${config.type} computes where its data is.`);
  }
}
