import { randomInt } from 'node:crypto';
import t from 'tap';
import { fuzz } from './answers/fuzz.ts';

/** ANSWERS_SEED=N repeats a run's answers. */
const SEED = Number(process.env['ANSWERS_SEED'] ?? randomInt(2 ** 31));
t.comment(`ANSWERS_SEED=${SEED}`);
await fuzz(t, 10_000, SEED);
