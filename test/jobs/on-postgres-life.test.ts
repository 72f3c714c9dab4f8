import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

// Tests of what becomes of an audience over many runs, with its store on Postgres; see on-postgres for the others.
await runOnPostgres(t, {
  'jobs/life': 16,
  'jobs/reading': 10,
  'jobs/rename': 8,
  'jobs/replay': 8,
  'jobs/schedule': 8,
  'jobs/snapshot': 6,
  'jobs/told': 15,
});
