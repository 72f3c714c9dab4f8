import { readdirSync } from 'node:fs';
import { resolve } from 'node:path';

const TESTS = resolve(import.meta.dirname, '..');

/** The test files of a folder, without those of folders within it. */
function filesOf(folder: string): readonly string[] {
  return readdirSync(resolve(TESTS, folder))
    .filter((name) => name.endsWith('.test.ts') && name !== 'on-postgres.test.ts')
    .sort()
    .map((name) => (folder === '.' ? name : `${folder}/${name}`));
}

/** Every view at five widths takes a minute. */
const LOOKS = 'admin/looks.test.ts';

/**
 * The test files that run in one process, by the name of the file that runs them; each takes less than two minutes. Few and large
 * ones: each process loads the program and warms it up. tap begins them in the order of their names: long ones first, so that no core
 * is idle at the end.
 */
export const SUITES = {
  '1-admin': filesOf('admin').filter((file) => file !== LOOKS),
  '1-cli': filesOf('cli'),
  '1-client': ['client', 'clocks'].flatMap((folder) => filesOf(folder)),
  '1-crash': filesOf('crash'),
  '1-jobs': filesOf('jobs'),
  '1-live': filesOf('live'),
  '1-looks': [LOOKS],
  '1-on-postgres-app': ['app/on-postgres.test.ts'],
  '1-on-postgres-jobs': ['jobs/on-postgres.test.ts'],
  '1-on-postgres-live': ['live/on-postgres.test.ts'],
  '1-store': ['store', 'store/postgres', 'store/sqlite'].flatMap((folder) => filesOf(folder)),
  '2-app': ['alerts', 'app', 'deletion'].flatMap((folder) => filesOf(folder)),
  '2-cluster': filesOf('cluster'),
  '2-collect': ['collect', 'config', 'definitions'].flatMap((folder) => filesOf(folder)),
  '2-deliver': ['deliver', 'deliver/endpoint'].flatMap((folder) => filesOf(folder)),
  '2-e2e-duckdb': ['e2e/cdnow.test.ts'],
  '2-events': ['events', 'examples', 'deploy', 'sdks'].flatMap((folder) => filesOf(folder)),
  '2-jobs-engines': filesOf('jobs/engines'),
  '2-on-postgres-deliver': ['deliver/on-postgres.test.ts'],
  '2-jobs-readers': filesOf('jobs/readers'),
  '2-property': ['property', 'kernel', 'http', '.'].flatMap((folder) => filesOf(folder)),
  '2-receivers': filesOf('receivers'),
  '3-e2e-postgres': ['e2e/cdnow-postgres.test.ts'],
  '3-on-postgres-events': ['events/on-postgres.test.ts'],
} as const;
