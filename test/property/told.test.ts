import { randomInt } from 'node:crypto';
import t, { type Test } from 'tap';
import { openDuckdb } from '../../jobs/engines/duckdb/duckdb.ts';
import { openPostgres } from '../../jobs/engines/postgres/postgres.ts';
import type { Engine } from '../../jobs/index.ts';
import { openPostgresReader } from '../../jobs/readers/postgres.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { randomNumbers } from '../cluster/fleet.ts';
import { startFastPostgres } from '../helpers/postgres.ts';
import { createRig } from '../jobs/helpers/rig.ts';
import { ToldModel } from './told-model.ts';

/** TOLD_SEED=N repeats a run; TOLD_STEPS=N makes a long one (`npm run test:model`). */
const SEED = Number(process.env['TOLD_SEED'] ?? randomInt(2 ** 31));
const steps = (usual: number) => Number(process.env['TOLD_STEPS'] ?? usual);
t.comment(`TOLD_SEED=${SEED}`);

t.test('leaves every reachable destination with the true state, whatever happens, with DuckDB', async (t) => {
  const memory = { type: 'duckdb', path: ':memory:', memoryLimit: null, threads: 1 } as const;
  const engine = await openDuckdb(memory, { folder: t.testdirName, clock: systemClock });
  t.teardown(() => engine.close());
  await play(t, engine, steps(25));
});

t.test('leaves every reachable destination with the true state, whatever happens, with Postgres', async (t) => {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const engine = await openPostgres({ type: 'postgres', url: await server.database() });
  t.teardown(() => engine.close());
  await play(t, engine, steps(15));
});

t.test('leaves every reachable destination with the true state, whatever happens, with a reader', async (t) => {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const url = await server.database();
  const memory = { type: 'duckdb', path: ':memory:', memoryLimit: null, threads: 1 } as const;
  const engine = await openDuckdb(memory, {
    folder: t.testdirName,
    clock: systemClock,
    reads: () => openPostgresReader({ url }, {}),
  });
  t.teardown(() => engine.close());
  await play(t, engine, steps(15));
});

async function play(t: Test, engine: Engine, count: number): Promise<void> {
  const random = randomNumbers(SEED);
  const model = new ToldModel(await createRig(t), engine, (most) => random(most) - 1);
  while (model.counts.steps < count) await model.step();
  await model.settle();
  t.comment(JSON.stringify(model.counts));
  t.equal(model.counts.steps, count);
  t.ok(model.counts.checked > 0);
}
