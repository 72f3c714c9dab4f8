import { randomInt } from 'node:crypto';
import t from 'tap';
import { startPostgres } from '../helpers/postgres.ts';
import { DAMAGES, type Damage, damageRound, endBefore, leaveStore } from './damage.ts';
import { randomNumbers } from './random.ts';
import { Scenario, type ScenarioOptions } from './scenario.ts';

/** The random moments are those of this seed; CRASH_SEED=N repeats a run's. */
const SEED = Number(process.env['CRASH_SEED'] ?? randomInt(2 ** 31));
t.comment(`CRASH_SEED=${SEED}`);

const POINTS = ['accept', 'commit', 'claim', 'post', 'settle', 'retry'] as const;
const SYNC_POINTS = ['sync_stage', 'sync_stream', 'sync_commit'] as const;
type Point = (typeof POINTS)[number] | (typeof SYNC_POINTS)[number];

function atFailpoints(name: string, points: readonly Point[], each: number, options: ScenarioOptions = {}) {
  return t.test(`${name}: ${each} crashes at ${points.join(', ')} lose nothing that was accepted`, async (t) => {
    const scenario = await Scenario.start(t, options);
    for (const failpoint of points) {
      const isOnce = failpoint.startsWith('sync');
      for (let kill = 1; kill <= each; kill += 1) await scenario.round({ failpoint, passes: isOnce ? 1 : kill });
    }
    await scenario.finish();
  });
}

function inMigration(name: string, kills: number, options: ScenarioOptions = {}) {
  return t.test(`${name}: ${kills} crashes inside the migration leave a store that works`, async (t) => {
    const scenario = await Scenario.start(t, options);
    for (let kill = 1; kill <= kills; kill += 1) await scenario.migrationRound();
    await scenario.finish();
  });
}

function atRandom(name: string, kills: number, options: ScenarioOptions = {}) {
  return t.test(`${name}: ${kills} crashes at random moments lose nothing that was accepted`, async (t) => {
    const random = randomNumbers(SEED);
    const scenario = await Scenario.start(t, options);
    for (let kill = 1; kill <= kills; kill += 1) {
      // By count under load, or by time, which may be while it starts.
      await scenario.round(kill % 4 === 0 ? { afterMs: random(2_500) } : { afterDeliveries: random(400) });
      if (kill % 10 === 0) t.comment(`${kill} kills`);
    }
    await scenario.finish();
  });
}

for (const point of [...POINTS, ...SYNC_POINTS]) await atFailpoints('SQLite', [point], 20);
await inMigration('SQLite', 20);
await atRandom('SQLite', 100);
await atFailpoints('SQLite in batches', ['claim', 'post', 'settle', 'retry'], 10, { isBatched: true });
await atRandom('SQLite in batches', 50, { isBatched: true });

const random = randomNumbers(SEED);
for (const damage of Object.keys(DAMAGES) as Damage[]) {
  await t.test(`does not serve a damaged store as if nothing had happened: ${damage}, 5 times`, async (t) => {
    for (let round = 1; round <= 5; round += 1) {
      const left = await leaveStore(endBefore(damage, random));
      await damageRound(t, damage, random, left).finally(() => left.remove());
    }
  });
}

const postgres = await startPostgres();
t.teardown(() => postgres.stop());
const options = { newStore: () => postgres.database() };
// Its leases end by the database's clock: crashes of a sync would take half a minute each.
await atFailpoints('Postgres', POINTS, 5, options);
await atFailpoints('SQLite, with the audience in Postgres', SYNC_POINTS, 10, { engine: await postgres.database() });
await inMigration('Postgres', 5, options);
await atRandom('Postgres', 20, options);
await atFailpoints('Postgres in batches', ['post', 'settle', 'retry'], 3, { ...options, isBatched: true });
await atRandom('Postgres in batches', 20, { ...options, isBatched: true });
