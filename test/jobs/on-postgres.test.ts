import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

// Tests of the sync with its store on Postgres; the engines have theirs in test/jobs/engines.
await runOnPostgres(t, {
  databases: 12,
  suites: [
    'jobs/deletion',
    'jobs/expect',
    'jobs/forget',
    'jobs/full-queue',
    'jobs/config-generation',
    'jobs/guard',
    'jobs/life',
    'jobs/plan',
    'jobs/queries',
    'jobs/rename',
    'jobs/replay',
    'jobs/run',
    'jobs/schedule',
    'jobs/snapshot-version',
    'jobs/forget-users',
    'property/told',
  ],
});
