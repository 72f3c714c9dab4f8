import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** Programs that tests start again and again, as processes of their own. */
export const PROGRAMS = [
  'src/cli/main.ts',
  'test/cluster/member.ts',
  'test/crash/service.ts',
  'test/events/helpers/crashing.ts',
  'test/helpers/armed-main.ts',
  'test/live/helpers/crashing.ts',
  'test/live/helpers/random-life.ts',
] as const;

/**
 * The file to run one of them by. In `npm test` that is one in which its modules stand together (`bundle-programs.ts`): it starts
 * in half of the time. A test that runs alone starts it from its sources.
 */
export function program(path: (typeof PROGRAMS)[number]): string {
  const folder = process.env['TEST_PROGRAMS'];
  const bundled = folder === undefined ? '' : join(folder, path.replace(/\.ts$/, '.mjs'));
  return existsSync(bundled) ? bundled : join(ROOT, path);
}
