import { runOnPostgres } from '../helpers/on-postgres.ts';

await runOnPostgres({ 'definitions/cdnow': 1 });
