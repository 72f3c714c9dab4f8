import t from 'tap';
import { TIME_LIMIT } from '../e2e/cdnow.ts';
import { runOnPostgres } from '../helpers/on-postgres.ts';

// Tests of the event log, and of definitions over it.
await runOnPostgres(t, { 'events/log': 4, 'events/crash': 1, 'definitions/cdnow': 1 }, TIME_LIMIT);
