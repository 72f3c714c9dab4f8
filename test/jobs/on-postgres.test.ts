import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

// Tests of the sync with its store on Postgres (more in on-postgres-life); the engines have theirs in test/jobs/engines.
await runOnPostgres(t, {
  'jobs/expect': 8,
  'jobs/forget': 9,
  'jobs/full-queue': 7,
  'jobs/generation': 7,
  'jobs/guard': 6,
  'jobs/plan': 4,
  'jobs/run': 13,
});
