import t from 'tap';
import { TIME_LIMIT } from '../e2e/cdnow.ts';
import { runOnPostgres } from '../helpers/on-postgres.ts';

// Tests of the event log, of definitions over it, and of deletions from it.
await runOnPostgres(t, {
  databases: 32,
  suites: [
    ...['events/absence', 'events/log', 'events/crash', 'events/sends', 'events/send-crash', 'definitions/cdnow'],
    ...['deletion/ids', 'deletion/odd-ids', 'deletion/property', 'deletion/under-way'],
  ],
  timeout: TIME_LIMIT,
});
