import { randomInt } from 'node:crypto';
import t from 'tap';
import { startPostgres } from '../helpers/postgres.ts';
import { skipWithoutFaketime } from './faketime.ts';
import { setClocks } from './scenario.ts';

/** The order of the steps is that of this seed; CLOCKS_SEED=N repeats a run's. */
const SEED = Number(process.env['CLOCKS_SEED'] ?? randomInt(2 ** 31));
t.comment(`CLOCKS_SEED=${SEED}`);
const HOUR = 3_600;
const ROUNDS = 3;

function steps(): number[] {
  let state = SEED;
  const next = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state;
  };
  const all = Array.from({ length: ROUNDS }, () => [HOUR, -HOUR, 5 * HOUR, -5 * HOUR, 1, -1]).flat();
  return all
    .map((step) => ({ step, at: next() }))
    .sort((a, b) => a.at - b.at)
    .map(({ step }) => step);
}

const options = { skip: skipWithoutFaketime };
await t.test('SQLite: a clock that is set again and again', options, (t) => setClocks(t, steps()));
await t.test('Postgres: a clock that is set again and again', options, async (t) => {
  const server = await startPostgres();
  t.teardown(() => server.stop());
  await setClocks(t, steps(), { store: await server.database() });
});
for (const speed of [0.95, 1.05]) {
  await t.test(`SQLite: a clock at ${speed} times its speed that is set again and again`, options, (t) =>
    setClocks(t, steps(), { speed }),
  );
}
