import type { Engine } from './port.ts';

/** Options that an engine of type `module` is opened with. */
export interface ModuleEngineOptions {
  /** `options` of the engine in the configuration. */
  readonly options: Readonly<Record<string, unknown>>;
  /** The configuration's folder, against which relative paths are resolved. */
  readonly folder: string;
  /** If true, only previews and look-ups follow, and nothing may be written. */
  readonly readOnly: boolean;
  /** Milliseconds after which the database itself should cancel a statement, since our process may be gone. */
  readonly timeout?: number | undefined;
}

/** The `openEngine` that such a module exports. It is called for each run, and the engine is closed afterwards. */
export type OpenModuleEngine = (options: ModuleEngineOptions) => Promise<Engine> | Engine;
