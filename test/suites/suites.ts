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

/** The test files that run in one process, by the name of the file that runs them; each takes less than a minute. */
export const SUITES = {
  admin: filesOf('admin'),
  app: ['alerts', 'app', 'deletion'].flatMap((folder) => filesOf(folder)),
  cli: filesOf('cli', /^[a-f]/),
  'cli-more': filesOf('cli', /^[^a-f]/),
  client: ['client', 'clocks'].flatMap((folder) => filesOf(folder)),
  cluster: filesOf('cluster', /^c/),
  'cluster-more': filesOf('cluster', /^[^c]/),
  collect: ['collect', 'config', 'definitions'].flatMap((folder) => filesOf(folder)),
  crash: filesOf('crash', /^c/),
  'crash-more': filesOf('crash', /^[^c]/),
  deliver: filesOf('deliver', /^[a-i]/),
  'deliver-more': filesOf('deliver', /^[^a-i]/),
  'e2e-duckdb': ['e2e/cdnow.test.ts'],
  'e2e-postgres': ['e2e/cdnow-postgres.test.ts'],
  events: ['events', 'examples', 'deploy', 'next', 'sdks'].flatMap((folder) => filesOf(folder)),
  jobs: filesOf('jobs'),
  'jobs-engines': filesOf('jobs/engines'),
  live: filesOf('live'),
  'on-postgres-app': ['app/on-postgres.test.ts'],
  'on-postgres-cdnow': ['definitions/cdnow-on-postgres.test.ts'],
  'on-postgres-deletion': ['jobs/deletion-on-postgres.test.ts'],
  'on-postgres-deliver': ['deliver/on-postgres.test.ts'],
  'on-postgres-events': ['events/on-postgres.test.ts'],
  'on-postgres-faults': ['deliver/on-postgres-faults.test.ts'],
  'on-postgres-jobs': ['jobs/on-postgres.test.ts'],
  'on-postgres-life': ['jobs/on-postgres-life.test.ts'],
  'on-postgres-live': ['live/on-postgres.test.ts'],
  property: ['property', '.'].flatMap((folder) => filesOf(folder)),
  receivers: filesOf('receivers'),
  store: filesOf('store', /^p/),
  'store-more': filesOf('store', /^[^p]/),
} as const;
