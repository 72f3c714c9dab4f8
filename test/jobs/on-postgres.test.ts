import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

// Tests of the sync with its store on Postgres; the engines have theirs in test/jobs/engines.
await runOnPostgres(t, {
  'jobs/deletion': 2,
  'jobs/expect': 1,
  'jobs/forget': 1,
  'jobs/full-queue': 1,
  'jobs/generation': 1,
  'jobs/guard': 1,
  'jobs/life': 1,
  'jobs/plan': 1,
  'jobs/reading': 1,
  'jobs/rename': 1,
  'jobs/replay': 1,
  'jobs/run': 1,
  'jobs/schedule': 1,
  'jobs/snapshot': 1,
  'jobs/told': 1,
});
