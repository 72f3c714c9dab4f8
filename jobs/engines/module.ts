import { createRequire } from 'node:module';
import { isAbsolute, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ModuleConfig } from '../../src/config/config.ts';
import { RollcallError } from '../../src/errors.ts';
import type { Engine } from './port.ts';

/** What an engine of type `module` is opened with. */
export interface ModuleEngineOptions {
  /** `options` of the engine in the configuration. */
  readonly options: Readonly<Record<string, unknown>>;
  /** The configuration's folder, where relative paths are looked up. */
  readonly folder: string;
  /** Only previews and look-ups will be asked for; nothing may be written. */
  readonly readOnly: boolean;
  /** Milliseconds after which the database itself should give a statement up, for who asked may be gone. */
  readonly timeout?: number | undefined;
}

/** What such a module exports as `openEngine`: called for each run, and closed after it. */
export type OpenModuleEngine = (options: ModuleEngineOptions) => Promise<Engine> | Engine;

const VERBS: readonly (keyof Engine)[] = [
  ...(['snapshot', 'stage', 'describe', 'preview', 'staged', 'changes'] as const),
  ...(['commit', 'cut', 'discard', 'lookup', 'forget', 'scrub', 'close'] as const),
];

/** @throws RollcallError `engine_unreachable` when the module can't be loaded, or makes no engine */
export async function openModule(
  { module, options }: ModuleConfig,
  { folder, readOnly = false, timeout }: Pick<ModuleEngineOptions, 'folder' | 'timeout'> & { readOnly?: boolean },
): Promise<Engine> {
  const { openEngine } = await load(module, folder);
  if (typeof openEngine !== 'function') throw unusable(module, 'it exports no function openEngine');
  const engine = await (openEngine as OpenModuleEngine)({ options, folder, readOnly, timeout });
  const missing = VERBS.filter((verb) => typeof engine?.[verb] !== 'function');
  if (missing.length > 0) throw unusable(module, `its engine has no ${missing.join(', ')}`);
  return engine;
}

async function load(module: string, folder: string): Promise<{ readonly openEngine?: unknown }> {
  try {
    // A package is one of those beside the configuration.
    const file = isAbsolute(module) ? module : createRequire(join(folder, 'rollcall.yaml')).resolve(module);
    return await import(pathToFileURL(file).href);
  } catch (cause) {
    throw unusable(module, cause instanceof Error ? cause.message : String(cause), cause);
  }
}

function unusable(module: string, reason: string, cause?: unknown): RollcallError {
  return new RollcallError('engine_unreachable', `Can't use the engine module ${module}: ${reason}.`, { cause });
}
