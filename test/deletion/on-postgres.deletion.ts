import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

await runOnPostgres(t, { databases: 1, suites: ['deletion/property'], timeout: 14_400_000 });
