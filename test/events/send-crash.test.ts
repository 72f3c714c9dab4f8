import { randomInt } from 'node:crypto';
import t from 'tap';
import { isOnPostgres, unsharedPostgres } from '../helpers/store.ts';
import { crashSends } from './helpers/send-crashes.ts';

/** SEND_KILLS=100 is the long version. */
const KILLS = Number(process.env['SEND_KILLS'] ?? 4);
const SEED = Number(process.env['CRASH_SEED'] ?? randomInt(2 ** 31));

t.test('sends each event once, by its key, however often the process is killed', async (t) => {
  t.comment(`CRASH_SEED=${SEED}`);
  await crashSends(t, isOnPostgres ? unsharedPostgres() : null, KILLS, SEED);
});
