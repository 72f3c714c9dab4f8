import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

await runOnPostgres(t, {
  databases: 14,
  suites: [
    'live/beside',
    'live/columns',
    'live/crash',
    'live/exact',
    'live/guard',
    'live/life',
    'live/meets',
    'live/random',
    'live/restore',
  ],
});
