import { randomInt } from 'node:crypto';
import t from 'tap';
import { isOnPostgres } from '../helpers/store.ts';
import { fuzz } from './answers/fuzz.ts';

/** ANSWERS_SEED=N repeats a run's answers. `npm run test:crash` gives 10,000. */
const SEED = Number(process.env['ANSWERS_SEED'] ?? randomInt(2 ** 31));
t.comment(`ANSWERS_SEED=${SEED}`);
await fuzz(t, isOnPostgres ? 100 : 500, SEED);
