import type { Engine } from './port.ts';

/** Options that an engine of type `module` is opened with. */
export interface ModuleEngineOptions {
  /** `options` of the engine in the configuration. */
  readonly options: Readonly<Record<string, unknown>>;
  /** The configuration's folder, where relative paths are looked up. */
  readonly folder: string;
  /** Only previews and look-ups will be asked for; nothing may be written. */
  readonly readOnly: boolean;
  /** Milliseconds after which the database itself should give up a statement: the process that asked may be gone. */
  readonly timeout?: number | undefined;
}

/** The `openEngine` that such a module exports: called for each run, and closed after it. */
export type OpenModuleEngine = (options: ModuleEngineOptions) => Promise<Engine> | Engine;
