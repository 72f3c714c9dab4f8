import { randomInt } from 'node:crypto';
import t, { type Test } from 'tap';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { Crashes } from '../events/helpers/crashes.ts';
import { startPostgres } from '../helpers/postgres.ts';
import { failing, type S3Server, startS3 } from '../helpers/s3.ts';
import { randomNumbers } from './random.ts';

/** CRASH_SEED=N repeats a run's moments. */
const SEED = Number(process.env['CRASH_SEED'] ?? randomInt(2 ** 31));
t.comment(`CRASH_SEED=${SEED}`);
const ROUNDS = 5;
const AT_RANDOM = 60;

/** The books are balanced after each round: what an early crash had lost, a later deletion would hide. */
async function crashAll(t: Test, database: string | null, s3: S3Server | null = null): Promise<void> {
  const crashes = new Crashes(t, database, s3);
  for (let round = 1; round <= ROUNDS; round += 1) {
    for (const place of crashes.places) {
      t.ok(await crashes.dieAt(place), `${round}: ${place.step} at ${place.failpoint} ${place.passes}`);
    }
    // In the thread of a SQLite store; Postgres commits elsewhere.
    if (database === null) {
      const commit = { step: 'seal', failpoint: 'commit', passes: 3 + round } as const;
      t.ok(await crashes.dieAt(commit), `${round}: commit ${commit.passes}`);
    }
    t.ok(await crashes.endWell(), 'a life ends as it should');
    await crashes.audit(t);
  }
  const random = randomNumbers(SEED);
  for (let kill = 1; kill <= AT_RANDOM; kill += 1) {
    t.ok(await crashes.dieAfter(random(1_500), random(2 ** 31)), `kill ${kill} at random`);
    if (kill % 10 === 0) {
      t.ok(await crashes.endWell(), 'a life ends as it should');
      await crashes.audit(t);
    }
  }
}

await t.test('keeps every acknowledged event once in a log of files, wherever the process is killed', (t) =>
  crashAll(t, null),
);

await t.test('keeps every acknowledged event once in a log in a bucket that fails one request in ten', async (t) => {
  const s3 = await startS3(t);
  s3.failOften(failing(randomNumbers(SEED), 10));
  await crashAll(t, null, s3);
});

await t.test('keeps every acknowledged event once in a log of a table, wherever the process is killed', async (t) => {
  const server = await startPostgres();
  t.teardown(() => server.stop());
  const url = await server.database();
  await migratePostgres(url);
  await crashAll(t, url);
});
