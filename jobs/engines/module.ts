import { createRequire } from 'node:module';
import { isAbsolute, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ModuleConfig } from '../../src/config/config.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { ModuleEngineOptions, OpenModuleEngine } from './module-options.ts';
import type { Engine } from './port.ts';

/** The methods that every engine must have. The type ensures that none is missing here. */
const VERBS: Readonly<
  Record<
    Exclude<
      keyof Engine,
      'causes' | 'everywhere' | 'examine' | 'ownership' | 'readForMove' | 'writeMoved' | 'removeMoved'
    >,
    true
  >
> = {
  snapshot: true,
  stage: true,
  describe: true,
  preview: true,
  staged: true,
  changes: true,
  commit: true,
  cut: true,
  discard: true,
  drop: true,
  lookup: true,
  members: true,
  memberPage: true,
  runChanges: true,
  runChangePage: true,
  history: true,
  prune: true,
  forget: true,
  scrub: true,
  close: true,
};

/** @throws RollcallError `engine_unreachable` if the module can't be loaded, or makes no engine */
export async function openModule(
  { module, options }: ModuleConfig,
  { folder, readOnly = false, timeout }: Pick<ModuleEngineOptions, 'folder' | 'timeout'> & { readOnly?: boolean },
): Promise<Engine> {
  const { openEngine, openReader } = await loadModule(module, folder);
  if (typeof openEngine !== 'function') {
    const advice = typeof openReader === 'function' ? ', but openReader: name the engine of its `snapshots`' : '';
    throw unusable(module, `it exports no function openEngine${advice}`);
  }
  const engine = await (openEngine as OpenModuleEngine)({ options, folder, readOnly, timeout });
  const missing = (Object.keys(VERBS) as (keyof typeof VERBS)[]).filter((verb) => typeof engine?.[verb] !== 'function');
  if (missing.length > 0) throw unusable(module, `its engine has no ${missing.join(', ')}`);
  return engine;
}

export async function loadModule(
  module: string,
  folder: string,
): Promise<{ readonly openEngine?: unknown; readonly openReader?: unknown }> {
  try {
    // Packages are resolved from the configuration's folder.
    const file = isAbsolute(module) ? module : createRequire(join(folder, 'rollcall.yaml')).resolve(module);
    return await import(pathToFileURL(file).href);
  } catch (cause) {
    throw unusable(module, cause instanceof Error ? cause.message : String(cause), cause);
  }
}

export function unusable(module: string, reason: string, cause?: unknown): RollcallError {
  return new RollcallError('engine_unreachable', `Can't use the engine module ${module}: ${reason}.`, { cause });
}
