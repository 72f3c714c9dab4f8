import type { Clock } from '../../src/clock.ts';
import type { EngineConfig } from '../../src/config/config.ts';
import { openDuckdb } from './duckdb/duckdb.ts';
import { openModule } from './module.ts';
import type { Engine } from './port.ts';
import { openPostgres } from './postgres/postgres.ts';

interface OpenEngineOptions {
  readonly folder: string;
  readonly clock: Clock;
  /** Only previews and look-ups will be asked for; nothing may be written. */
  readonly readOnly?: boolean;
  /** Milliseconds after which the database itself should give a statement up, for who asked may be gone. */
  readonly timeout?: number | undefined;
}

/** Opens the engine of this configuration for one piece of work. */
export type OpenEngine = (config: EngineConfig, options: OpenEngineOptions) => Promise<Engine>;

export const openEngine: OpenEngine = (config, options) => {
  switch (config.type) {
    case 'duckdb':
      return openDuckdb(config, options);
    case 'postgres':
      return openPostgres(config, options);
    case 'module':
      return openModule(config, options);
  }
};
