import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

await runOnPostgres(t, { 'events/log': 4, 'events/crash': 1 });
