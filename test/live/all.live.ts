import t from 'tap';
/** The long versions on Postgres; `npm run test:live` runs those on SQLite beside it. */
import { runOnPostgres } from '../helpers/on-postgres.ts';

await runOnPostgres(t, { databases: 2, suites: ['live/random', 'live/cdnow'], timeout: 7_200_000 });
