import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Config } from '../config/config.ts';
import { RollcallError } from '../kernel/errors.ts';
import { forgetLost, linked, traceOf } from '../store/sqlite/files.ts';

/** True if the next start creates the store. If there is a trace of one, it was lost or moved. */
export function isUnmade({ store }: Pick<Config, 'store'>): boolean {
  if (!store.url.startsWith('sqlite:') || store.url === 'sqlite::memory:') return false;
  const path = linked(store.url.slice('sqlite:'.length));
  return isBlank(path) && traceOf(path) === null && isWritable(dirname(path));
}

/** For commands that only read: treat a missing store as empty, without creating it. */
export function withoutMakingStore(config: Config): Config {
  return isUnmade(config) ? { ...config, store: { ...config.store, url: 'sqlite::memory:' } } : config;
}

/** @throws RollcallError `bad_usage` if there is a store */
export function forgetLostStore({ store }: Pick<Config, 'store'>): void {
  if (store.url.startsWith('sqlite:') && store.url !== 'sqlite::memory:')
    forgetLost(linked(store.url.slice('sqlite:'.length)));
}

export function noStore({ store }: Pick<Config, 'store'>): RollcallError {
  const path = store.url.slice('sqlite:'.length);
  return new RollcallError(
    'store_missing',
    `There is no store at ${path}. rollcall start makes one; if there was one, put its file back, or correct \`store\`.`,
  );
}

function isBlank(path: string): boolean {
  if (!existsSync(path)) return true;
  const file = statSync(path);
  return file.isFile() && file.size === 0;
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
