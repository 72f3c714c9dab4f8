import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

// Tests of the whole service and the command line; the others are in test/deliver and test/jobs. It stands in test/app so that
// it begins early: at the end, one core would wait for it.
await runOnPostgres(t, {
  'admin/api': 7,
  'app/source-deletion': 1,
  'cli/dead-letters': 4,
  'cli/destinations': 3,
  'cli/process': 2,
  'cli/replay-letters': 1,
  'cli/service': 5,
  'cli/sync': 8,
  'collect/whole': 9,
});
