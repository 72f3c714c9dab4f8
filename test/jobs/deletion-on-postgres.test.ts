import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

// Beside the other tests of the sync on Postgres, which take long enough.
await runOnPostgres(t, { 'jobs/deletion': 2 });
