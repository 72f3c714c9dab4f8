import { readdirSync } from 'node:fs';
import { resolve } from 'node:path';

const TESTS = resolve(import.meta.dirname, '..');

/** The test files of a folder, without those of folders within it; some by a pattern of their names. */
function filesOf(folder: string, names = /^/): readonly string[] {
  return readdirSync(resolve(TESTS, folder))
    .filter((name) => name.endsWith('.test.ts') && !name.includes('on-postgres') && names.test(name))
    .sort()
    .map((name) => (folder === '.' ? name : `${folder}/${name}`));
}

/**
 * The test files that run in one process, by the name of the file that runs them; each takes less than two minutes. tap begins
 * them in the order of their names: long ones first, so that no core is idle at the end.
 */
export const SUITES = {
  '1-admin': filesOf('admin'),
  '1-cli': filesOf('cli', /^[a-f]/),
  '1-client': ['client', 'clocks'].flatMap((folder) => filesOf(folder)),
  '1-crash-more': filesOf('crash', /^[^c]/),
  '1-jobs': filesOf('jobs'),
  '1-live': filesOf('live'),
  '1-on-postgres-app': ['app/on-postgres.test.ts'],
  '1-on-postgres-jobs': ['jobs/on-postgres.test.ts'],
  '1-on-postgres-live': ['live/on-postgres.test.ts'],
  '1-store-more': filesOf('store', /^[^p]/),
  '2-app': ['alerts', 'app', 'deletion'].flatMap((folder) => filesOf(folder)),
  '2-cli-more': filesOf('cli', /^[^a-f]/),
  '2-cluster-more': filesOf('cluster', /^[^c]/),
  '2-collect': ['collect', 'config', 'definitions'].flatMap((folder) => filesOf(folder)),
  '2-e2e-duckdb': ['e2e/cdnow.test.ts'],
  '2-events': ['events', 'examples', 'deploy', 'next', 'sdks'].flatMap((folder) => filesOf(folder)),
  '2-jobs-engines': filesOf('jobs/engines'),
  '2-on-postgres-deliver': ['deliver/on-postgres.test.ts'],
  '2-property': ['property', '.'].flatMap((folder) => filesOf(folder)),
  '2-receivers': filesOf('receivers'),
  '3-cluster': filesOf('cluster', /^c/),
  '3-crash': filesOf('crash', /^c/),
  '3-deliver': filesOf('deliver', /^[a-i]/),
  '3-deliver-more': filesOf('deliver', /^[^a-i]/),
  '3-e2e-postgres': ['e2e/cdnow-postgres.test.ts'],
  '3-on-postgres-cdnow': ['definitions/cdnow-on-postgres.test.ts'],
  '3-on-postgres-deletion': ['jobs/deletion-on-postgres.test.ts'],
  '3-on-postgres-events': ['events/on-postgres.test.ts'],
  '3-store': filesOf('store', /^p/),
} as const;
