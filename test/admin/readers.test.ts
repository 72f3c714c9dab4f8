import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBConnection } from '@duckdb/node-api';
import pg from 'pg';
import t, { type Test } from 'tap';
import { startFastPostgres } from '../helpers/postgres.ts';
import { launch } from '../helpers/program.ts';
import { until } from '../helpers/until.ts';
import type { Json } from './contract.ts';
import { CONFIG, SECRETS, type Service, startService, V1 } from './service.ts';

const MARK = 'takes_minutes';
const PLAN = `${V1}/audiences/slow/plan`;
const WHY = `${V1}/audiences/regulars/why?user=u1`;

interface Warehouse {
  readonly engine: object;
  readonly slow: string;
  readonly quick: string;
  /** The number of slow queries in the engine. */
  running(): Promise<number>;
}

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
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  t.teardown(() => pool.end());
  return {
    engine: { type: 'postgres', url },
    slow: `select 'u' as user_id from (select pg_sleep(600)) as ${MARK}`,
    quick: "select 'u' || n as user_id from generate_series(0, 2) as numbers(n)",
    async running() {
      const { rows } = await pool.query<{ n: number }>(
        `select count(*)::int as n from pg_stat_activity
         where state = 'active' and pid <> pg_backend_pid() and query like '%${MARK}%'`,
      );
      return rows[0]?.n ?? 0;
    },
  };
}

async function start(t: Test, { engine, slow, quick }: Warehouse): Promise<Service & { readonly file: string }> {
  const over = {
    store: 'sqlite:./rollcall.db',
    engines: { lake: engine },
    audiences: [
      { name: 'Regulars', source: 'shop', sql: quick },
      { name: 'Others', source: 'shop', sql: quick },
      { name: 'Slow', source: 'shop', sql: slow },
    ],
  };
  const service = await startService(t, over);
  const file = join(t.testdirName, 'rollcall.yaml');
  await writeFile(file, JSON.stringify({ ...CONFIG, ...over, log: { level: 'info' } }));
  await synced(t, service, 'regulars');
  return { ...service, file };
}

async function synced(t: Test, { post }: Service, key: string): Promise<void> {
  const response = await post(`${V1}/audiences/${key}/sync?wait=true`, {}, SECRETS.operator);
  t.match(await response.json(), { runs: [{ key, state: 'done' }] }, `${key} is synced`);
}

async function deleted(t: Test, { post, json }: Service, userId: string): Promise<void> {
  const filed = await post('/regulations', {
    ...{ regulationType: 'DELETE_ONLY', subjectType: 'USER_ID' },
    subjectIds: [userId],
  });
  const { data }: Json = await filed.json();
  await until(async () => {
    const { regulation } = (await json(`/regulations/${data.regulateId}`)).data;
    return regulation.overallStatus === 'FINISHED';
  });
  t.pass(`${userId} is deleted`);
}

/** Asks for plans with a token that may only read. */
function planTimes({ ask }: Service, times: number) {
  const client = new AbortController();
  const answers: Response[] = [];
  const asked = Array.from({ length: times }, () =>
    ask(PLAN, { token: SECRETS.reader, signal: client.signal }).then(
      (response) => void answers.push(response),
      () => {},
    ),
  );
  return {
    answers,
    async hangUp() {
      client.abort();
      await Promise.all(asked);
    },
  };
}

for (const [name, open] of Object.entries({ DuckDB: duckdb, Postgres: postgres })) {
  t.test(`syncs and deletes on ${name} while 400 clients ask for a plan of minutes`, async (t) => {
    const warehouse = await open(t);
    const service = await start(t, warehouse);
    const plans = planTimes(service, 400);
    await until(async () => plans.answers.length >= 396 && (await warehouse.running()) === 1);
    for (const answer of plans.answers) {
      t.match(answer, { status: 503 });
      t.ok(Number(answer.headers.get('retry-after')) > 0);
      t.match(await answer.json(), { code: 'engine_busy' });
    }
    t.match(await service.json(WHY, { token: SECRETS.reader }), { member: true });
    await synced(t, service, 'others');
    await deleted(t, service, 'u1');
    t.match(await service.json(WHY, { token: SECRETS.reader }), { member: false });
    await plans.hangUp();
    await until(async () => (await warehouse.running()) === 0);
    const plan = `${V1}/audiences/others/plan`;
    await until(async () => (await service.ask(plan, { token: SECRETS.reader })).status === 200);
    t.same(
      service.lines.filter((line) => JSON.parse(line).msg === 'request failed'),
      [],
      'no refusal fills the log',
    );
  });

  t.test(`cancels a query on ${name} whose client hangs up`, async (t) => {
    const warehouse = await open(t);
    const plans = planTimes(await start(t, warehouse), 3);
    await until(async () => (await warehouse.running()) === 1);
    await plans.hangUp();
    await until(async () => (await warehouse.running()) === 0);
    t.same(plans.answers, []);
  });
}

t.test('gives other callers their turn', async (t) => {
  const warehouse = duckdb(t);
  const service = await start(t, warehouse);
  const plans = planTimes(service, 10);
  await until(async () => plans.answers.length === 6);
  const client = new AbortController();
  const other = service.ask(PLAN, { signal: client.signal });
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
  await Promise.all([why, sync].map(({ child }) => saysThatItWaits(child.stderr)));
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
  await until(async () => {
    await service.post(`${V1}/audiences/others/sync`, {}, SECRETS.operator);
    return waits();
  });
  plan.child.kill('SIGINT');
  await plan.ended;
  await synced(t, service, 'others');
  t.same(await service.app.store.runs({ key: 'others', states: ['failed'], limit: 10 }), []);
});

async function saysThatItWaits(stderr: NodeJS.ReadableStream | null): Promise<void> {
  let said = '';
  stderr?.on('data', (chunk) => {
    said += chunk;
  });
  await until(() => said.includes('Waiting for'));
}
