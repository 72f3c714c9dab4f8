import type { ModuleConfig } from '../../src/config/config.ts';
import { loadModule, unusable } from '../engines/module.ts';
import type { OpenModuleReader, Reader, ReaderOptions } from './port.ts';

const VERBS = ['query', 'examine', 'close'] as const;

/** @throws RollcallError `engine_unreachable` if the module can't be loaded, or makes no reader */
export async function openModuleReader(
  { module, options }: ModuleConfig,
  { folder, timeout }: Omit<ReaderOptions, 'options'>,
): Promise<Reader> {
  const { openReader } = await loadModule(module, folder);
  if (typeof openReader !== 'function') throw unusable(module, 'it exports no function openReader');
  const reader = await (openReader as OpenModuleReader)({ options, folder, timeout });
  const missing = VERBS.filter((verb) => typeof reader?.[verb] !== 'function');
  if (missing.length > 0) throw unusable(module, `its reader has no ${missing.join(', ')}`);
  return reader;
}
