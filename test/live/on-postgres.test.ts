import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

await runOnPostgres(t, {
  databases: 8,
  suites: ['live/beside', 'live/crash', 'live/exact', 'live/life', 'live/meets', 'live/random', 'live/restore'],
});
