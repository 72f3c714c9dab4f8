/** What opening DuckDB's file costs a small run: `node bench/sync/small.ts`. CPU of each, this process alone. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDuckdb } from '../../jobs/engines/duckdb/duckdb.ts';
import type { Engine } from '../../jobs/engines/index.ts';
import { systemClock as clock } from '../../src/kernel/clock.ts';

const ROUNDS = 100;
const folder = mkdtempSync(join(tmpdir(), 'rollcall-bench-'));
const config = { type: 'duckdb', path: join(folder, 'audiences.duckdb'), memoryLimit: null, threads: null } as const;

/** Fifty users, of whom one leaves and one enters. */
async function sync(engine: Engine, round: number): Promise<void> {
  const plan = `p${round}`;
  const sql = `select 'u' || (i + ${round}) as user_id from range(50) as numbers(i)`;
  const definition = { key: 'k', kind: 'audience', sql, asOf: 0 } as const;
  await engine.stage({ ...definition, plan, action: 'sync', toVersion: round + 1, leavers: false, leasedAt: round });
  await engine.changes(plan, 0, 100);
  await engine.commit(plan);
  await engine.discard(plan);
}

async function measure(what: string, work: (engine: Engine, round: number) => Promise<unknown>): Promise<void> {
  const before = process.cpuUsage();
  for (let round = 0; round < ROUNDS; round += 1) {
    const engine = await openDuckdb(config, { folder, clock });
    await work(engine, round);
    await engine.close();
  }
  const { user, system } = process.cpuUsage(before);
  console.log(`${what}: ${((user + system) / 1000 / ROUNDS).toFixed(1)} ms of CPU`);
}

try {
  await measure('a look at the snapshot', (engine) => engine.snapshot('k'));
  await measure('a sync of 50 users', sync);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
