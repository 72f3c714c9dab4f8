import { join } from 'node:path';
import { DuckDBConnection } from '@duckdb/node-api';
import t, { type Test } from 'tap';
import { appPool, startFastPostgres } from '../helpers/postgres.ts';
import { launch, type Program } from '../helpers/program.ts';
import { until } from '../helpers/until.ts';
import { MARK, planTimes, readersHoldNothing, start, synced, type Warehouse } from './readers.ts';
import { V1 } from './service.ts';

/** Counts the slow queries of this process. */
function duckdb(t: Test): Warehouse {
  const { run } = DuckDBConnection.prototype;
  let running = 0;
  t.intercept(DuckDBConnection.prototype, 'run', {
    value: function counted(this: DuckDBConnection, ...query: Parameters<typeof run>) {
      const result = run.apply(this, query);
      if (!query[0].includes(MARK) || !query[0].startsWith('CREATE')) return result;
      running += 1;
      return result.finally(() => {
        running -= 1;
      });
    },
  });
  return {
    engine: { type: 'duckdb', path: './audiences.duckdb', threads: 1 },
    slow: `select 'u' as user_id from range(1000000000000) as ${MARK}(i) where hash(i) = 42`,
    quick: "select 'u' || range as user_id from range(3)",
    running: async () => running,
  };
}

async function postgres(t: Test): Promise<Warehouse> {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const url = await server.database();
  const pool = appPool(url, { max: 1 });
  t.teardown(() => pool.end());
  return {
    engine: { type: 'postgres', url },
    slow: `select 'u' as user_id from (select pg_sleep(600)) as ${MARK}`,
    quick: "select 'u' || n as user_id from generate_series(0, 2) as numbers(n)",
    async running() {
      // Postgres shows the beginning of a long query, which does not reach the definition.
      const { rows } = await pool.query<{ n: number }>(
        `select count(*)::int as n from pg_stat_activity
         where state = 'active' and pid <> pg_backend_pid() and query like 'CREATE TEMPORARY TABLE preview_%'`,
      );
      return rows[0]?.n ?? 0;
    },
  };
}

readersHoldNothing(t, 'DuckDB', duckdb);
readersHoldNothing(t, 'Postgres', postgres);

t.test('gives other callers their turn', async (t) => {
  const warehouse = duckdb(t);
  const service = await start(t, warehouse);
  const plans = planTimes(service, 10);
  await until(async () => plans.answers.length === 6);
  const client = new AbortController();
  const other = service.ask(`${V1}/audiences/slow/plan`, { signal: client.signal });
  await plans.hangUp();
  await until(async () => (await warehouse.running()) === 1);
  client.abort();
  await t.rejects(other);
});

t.test('commands wait for a file that the service uses, and say so', async (t) => {
  const warehouse = duckdb(t);
  const service = await start(t, warehouse);
  const plans = planTimes(service, 1);
  await until(async () => (await warehouse.running()) === 1);
  const why = launch(['why', 'regulars', 'u1', '-c', service.file]);
  const sync = launch(['sync', 'others', '--once', '-c', service.file]);
  await Promise.all([why, sync].map(saysThatItWaits));
  await plans.hangUp();
  t.match(await why.ended, {
    code: 0,
    stdout: /u1 is in regulars/,
    stderr: /^Waiting for .*audiences\.duckdb: it is in use by .*\(PID \d+\)\.\n$/,
  });
  t.match(await sync.ended, { code: 4, stdout: /others/ });
});

t.test('runs of the service wait for the file of a command', async (t) => {
  const service = await start(t, duckdb(t));
  const plan = launch(['plan', 'slow', '-c', service.file]);
  t.teardown(() => plan.child.kill('SIGKILL'));
  const waits = () => service.lines.some((line) => /Waiting for .*audiences\.duckdb/.test(line));
  while (!waits()) await Promise.race([synced(t, service, 'others'), until(waits)]);
  plan.child.kill('SIGINT');
  await plan.ended;
  await synced(t, service, 'others');
  t.same(await service.app.store.runs({ key: 'others', states: ['failed'], limit: 10 }), []);
});

t.test('approves a run once a backup has the file that a reader kept', async (t) => {
  const warehouse = duckdb(t);
  const service = await start(t, warehouse);
  await service.app.sync.run(['guarded'], { now: Date.parse('2000-01-01') });
  const [report] = await service.app.sync.run(['guarded']);
  const [held] = report?.runs ?? [];
  t.match(held, { state: 'held' });
  const plans = planTimes(service, 1);
  await until(async () => (await warehouse.running()) === 1);
  const backup = launch(['backup', join(t.testdirName, 'copy'), '-c', service.file]);
  await saysThatItWaits(backup);
  const approved = service.post(`${V1}/runs/${held?.id}/approve?wait=true`);
  await plans.hangUp();
  t.match(await backup.ended, { code: 0, stdout: /audiences\.duckdb/ });
  t.equal((await approved).status, 200);
});

async function saysThatItWaits({ child }: Program): Promise<void> {
  let said = '';
  child.stderr?.on('data', (chunk) => {
    said += chunk;
  });
  await until(() => said.includes('Waiting for'));
}
