import t from 'tap';
import { runOnPostgres } from '../helpers/on-postgres.ts';

await runOnPostgres(t, {
  'live/beside': 1,
  'live/crash': 1,
  'live/exact': 1,
  'live/life': 1,
  'live/meets': 1,
  'live/random': 1,
  'live/restore': 2,
});
