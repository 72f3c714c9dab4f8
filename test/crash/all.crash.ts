import { randomInt } from 'node:crypto';
import t from 'tap';
import { startPostgres } from '../helpers/postgres.ts';
import { Scenario, type ScenarioOptions } from './scenario.ts';

/** The random moments are those of this seed; CRASH_SEED=N repeats a run's. */
const SEED = Number(process.env['CRASH_SEED'] ?? randomInt(2 ** 31));
t.comment(`CRASH_SEED=${SEED}`);

const POINTS = ['accept', 'commit', 'claim', 'post', 'settle', 'retry'] as const;
const SYNC_POINTS = ['sync_stage', 'sync_stream', 'sync_commit'] as const;

/** A whole number from 1 to `most`, the same ones in every run of one seed (mulberry32). */
function randomNumbers(seed: number): (most: number) => number {
  let state = seed;
  return (most) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return 1 + (((mixed ^ (mixed >>> 14)) >>> 0) % most);
  };
}

async function crashAll(
  storeName: string,
  kills: {
    readonly points: readonly ((typeof POINTS)[number] | (typeof SYNC_POINTS)[number])[];
    readonly each: number;
    readonly random: number;
  },
  options: ScenarioOptions,
) {
  for (const failpoint of kills.points) {
    await t.test(`${storeName}: ${kills.each} crashes at ${failpoint} lose nothing that was accepted`, async (t) => {
      const scenario = await Scenario.start(t, options);
      const isOnce = failpoint.startsWith('sync');
      for (let kill = 1; kill <= kills.each; kill += 1) await scenario.round({ failpoint, passes: isOnce ? 1 : kill });
      await scenario.finish();
    });
  }

  await t.test(`${storeName}: ${kills.each} crashes inside the migration leave a store that works`, async (t) => {
    const scenario = await Scenario.start(t, options);
    for (let kill = 1; kill <= kills.each; kill += 1) await scenario.migrationRound();
    await scenario.finish();
  });

  await t.test(`${storeName}: ${kills.random} crashes at random moments lose nothing that was accepted`, async (t) => {
    const random = randomNumbers(SEED);
    const scenario = await Scenario.start(t, options);
    for (let kill = 1; kill <= kills.random; kill += 1) {
      // By count under load, or by time, which may be while it starts.
      await scenario.round(kill % 4 === 0 ? { afterMs: random(2_500) } : { afterDeliveries: random(400) });
      if (kill % 10 === 0) t.comment(`${kill} kills`);
    }
    await scenario.finish();
  });
}

await crashAll('SQLite', { points: [...POINTS, ...SYNC_POINTS], each: 20, random: 100 }, {});
const postgres = await startPostgres();
t.teardown(() => postgres.stop());
// Its leases end by the database's clock: crashes of a sync would take half a minute each.
await crashAll('Postgres', { points: POINTS, each: 5, random: 20 }, { newStore: () => postgres.database() });
