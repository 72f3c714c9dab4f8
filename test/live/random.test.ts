import t from 'tap';
import { RandomLives } from './helpers/random-lives.ts';

const LONG = process.env['LIVE_ANSWERS'];
t.setTimeout(LONG === undefined ? 590_000 : 7_200_000);
/** Answers about a user, a definition and an instant; `npm run test:live` asks for a million on each store. */
const ANSWERS = Number(LONG ?? 1_000);
const SEED = Number(process.env['LIVE_SEED'] ?? 20_261_122);
const GROUPS = LONG === undefined ? 30 : 100;
const INSTANTS = LONG === undefined ? 3 : 9;
/** Steps of building and of making live, of some fifty. */
const BUILD_STEPS = 60;

t.test('keeps state as the SQL says for random definitions in killed processes', async (t) => {
  const lives = new RandomLives(t, SEED, GROUPS);
  for (let generation = 0; lives.counts.compared < ANSWERS && lives.differences.length === 0; generation += 1) {
    await lives.generation(generation, INSTANTS, 1 + ((generation * 7) % BUILD_STEPS));
    if (LONG !== undefined) t.comment(JSON.stringify(lives.counts));
  }
  t.same(lives.differences, [], `LIVE_SEED=${SEED}: ${JSON.stringify(lives.counts)}`);
  t.ok(lives.counts.killed > 0 && lives.counts.found > 0, 'processes were killed, and there were members');
});
