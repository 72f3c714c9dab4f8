import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

await runOnPostgres(t, { databases: 1, suites: ['events/send-crash'], timeout: 7_200_000 });
