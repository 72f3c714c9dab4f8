import t from 'tap';
/** The long versions on Postgres; `npm run test:live` runs those on SQLite beside it. */
import { runOnPostgres } from '../helpers/on-postgres.ts';

await runOnPostgres(t, { 'live/random': 1, 'live/cdnow': 1 }, 7_200_000);
