import { randomInt } from 'node:crypto';
import t, { type Test } from 'tap';
import { startPostgres } from '../helpers/postgres.ts';
import { LiveCrashes } from '../live/helpers/crashes.ts';
import { randomNumbers } from './random.ts';

/** CRASH_SEED=N repeats a run's moments and events. */
const SEED = Number(process.env['CRASH_SEED'] ?? randomInt(2 ** 31));
t.comment(`CRASH_SEED=${SEED}`);
const PASSES = Number(process.env['CRASH_PASSES'] ?? 15);
const AT_RANDOM = Number(process.env['CRASH_KILLS'] ?? 40);
const AUDIT_EVERY = 5;
/** Kinds of steps until a definition is live: announced, begun, people and anonymous ids written, ended, taking over, taken over, recorded. */
const KINDS_OF_STEPS = 8;

/** All is compared after every few kills: what an early one had lost, those who leave later would hide. */
async function crashAll(t: Test, database: string | null): Promise<void> {
  const crashes = await LiveCrashes.start(t, database, SEED);
  for (let passes = 1; passes <= PASSES; passes += 1) {
    for (const failpoint of ['live_step', 'live_stepped'] as const)
      await crashes.dieAt(failpoint, passes, passes % 2 === 0 ? 'start' : 'told');
    if (passes % AUDIT_EVERY === 0) await crashes.audit();
  }
  let steps: number | null = null;
  for (let step = 1; steps === null; step += 1) {
    steps = await crashes.dieInBuild(step);
    if (step % AUDIT_EVERY === 0) await crashes.audit();
  }
  t.ok(steps >= KINDS_OF_STEPS, `killed in each of ${steps} steps of building; after the last one all is live`);
  const random = randomNumbers(SEED);
  for (let kill = 1; kill <= AT_RANDOM; kill += 1) {
    await crashes.dieAfter(random(2_000));
    if (kill % AUDIT_EVERY === 0) await crashes.audit();
  }
  const { changes, leavers } = crashes.heard;
  t.ok(leavers > 0, `${changes} changes, ${leavers} of them of somebody who left`);
}

await t.test('computes live audiences on SQLite as the SQL does, wherever the process is killed', (t) =>
  crashAll(t, null),
);

await t.test('computes live audiences on Postgres as the SQL does, wherever the process is killed', async (t) => {
  const server = await startPostgres();
  t.teardown(() => server.stop());
  await crashAll(t, await server.database());
});
