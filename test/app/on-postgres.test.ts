import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

// Tests of the whole service and the command line; the others are in test/deliver and test/jobs. It stands in test/app so that
// it begins early: at the end, one core would wait for it.
await runOnPostgres(t, {
  databases: 2,
  suites: [
    'admin/api',
    'app/source-deletion',
    'cli/dead-letters',
    'cli/destinations',
    'cli/process',
    'cli/replay-letters',
    'cli/service',
    'cli/sync',
    'collect/whole',
  ],
});
