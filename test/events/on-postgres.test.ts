import { runOnPostgres } from '../helpers/on-postgres.ts';

await runOnPostgres({ 'events/log': 4, 'events/crash': 1 });
