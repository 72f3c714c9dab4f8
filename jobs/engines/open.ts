import type { EngineConfig } from '../../src/config/config.ts';
import type { Clock } from '../../src/kernel/clock.ts';
import type { LoggedEvents } from '../event-log-access.ts';
import type { Engine } from './port.ts';

interface OpenEngineOptions {
  readonly folder: string;
  readonly clock: Clock;
  /** The event log in files, where definitions may read it. */
  readonly eventLog?: LoggedEvents | null;
  /** Whether the event log is in the engine's own database. */
  readonly seesEvents?: boolean;
  /** Only previews and look-ups will be asked for; nothing may be written. */
  readonly readOnly?: boolean;
  /** Milliseconds after which the database itself should give up a statement: the process that asked may be gone. */
  readonly timeout?: number | undefined;
}

/** Opens the engine of this configuration for one piece of work. Each kind is loaded only where it is used. */
export type OpenEngine = (config: EngineConfig, options: OpenEngineOptions) => Promise<Engine>;

export const openEngine: OpenEngine = async (config, options) => {
  switch (config.type) {
    case 'duckdb':
      return (await import('./duckdb/duckdb.ts')).openDuckdb(config, options);
    case 'postgres':
      return (await import('./postgres/postgres.ts')).openPostgres(config, options);
    case 'clickhouse':
      return (await import('./clickhouse/clickhouse.ts')).openClickhouse(config, options);
    case 'module':
      return (await import('./module.ts')).openModule(config, options);
  }
};
