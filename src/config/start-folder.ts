import type { Environment } from './variables.ts';

/** Where `npm run rollcall` was typed; npm moves to the package's folder. Null for other ways of starting. */
export function startFolder(env: Environment = process.env): string | null {
  return env['npm_lifecycle_event'] === 'rollcall' ? (env['INIT_CWD'] ?? null) : null;
}
