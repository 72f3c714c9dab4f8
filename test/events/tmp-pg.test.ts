import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

await runOnPostgres(t, { databases: 6, suites: (process.env['S'] ?? 'events/sends').split(','), timeout: 900_000 });
