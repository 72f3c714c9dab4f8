import { runOnPostgres } from '../helpers/on-postgres.ts';

// Tests of the whole service, the command line and the sync; those of the worker are in test/deliver/on-postgres.test.ts.
await runOnPostgres({
  'cli/sync': 8,
  'collect/whole': 8,
  'jobs/life': 16,
  'jobs/forget': 8,
});
