import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

// Tests of the sync with its store on Postgres; the engines have theirs in test/jobs/engines.
await runOnPostgres(t, {
  databases: 2,
  suites: [
    'jobs/deletion',
    'jobs/expect',
    'jobs/forget',
    'jobs/full-queue',
    'jobs/generation',
    'jobs/guard',
    'jobs/life',
    'jobs/plan',
    'jobs/reading',
    'jobs/rename',
    'jobs/replay',
    'jobs/run',
    'jobs/schedule',
    'jobs/snapshot',
    'jobs/told',
  ],
});
