import type { Environment } from './variables.ts';

/** The folder in which `npm run rollcall` was called, since npm changes it. Null for other ways of starting. */
export function startFolder(env: Environment = process.env): string | null {
  return env['npm_lifecycle_event'] === 'rollcall' ? (env['INIT_CWD'] ?? null) : null;
}
