import t from 'tap';
import { TIME_LIMIT } from '../e2e/cdnow.ts';
import { runOnPostgres } from '../helpers/on-postgres.ts';

// Tests of the event log, and of definitions over it.
await runOnPostgres(t, {
  databases: 7,
  suites: ['events/absence', 'events/log', 'events/crash', 'definitions/cdnow'],
  timeout: TIME_LIMIT,
});
