import t from 'tap';
import { TIME_LIMIT } from '../e2e/cdnow.ts';
import { runOnPostgres } from '../helpers/on-postgres.ts';

await runOnPostgres(t, { 'definitions/cdnow': 1 }, TIME_LIMIT);
