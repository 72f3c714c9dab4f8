import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Test } from 'tap';
import { until } from '../helpers/until.ts';
import type { Json } from './contract.ts';
import { CONFIG, SECRETS, type Service, startService, V1 } from './service.ts';

/** A part of the SQL of queries that take minutes. */
export const MARK = 'takes_minutes';
const PLAN = `${V1}/audiences/slow/plan`;
const WHY = `${V1}/audiences/regulars/why?user=u1`;

export interface Warehouse {
  readonly engine: object;
  /** A folder with packages that the engine needs. */
  readonly packages?: string;
  readonly slow: string;
  readonly quick: string;
  /** The number of slow queries in the engine. */
  running(): Promise<number>;
}

export async function start(
  t: Test,
  { engine, packages, slow, quick }: Warehouse,
): Promise<Service & { readonly file: string }> {
  const over = {
    store: 'sqlite:./rollcall.db',
    engines: { lake: engine },
    audiences: [
      { name: 'Regulars', source: 'shop', sql: quick },
      { name: 'Others', source: 'shop', sql: quick },
      { name: 'Guarded', source: 'shop', sql: "select 'u1' as user_id where $now < '2001-01-01'" },
      { name: 'Slow', source: 'shop', sql: slow },
    ],
  };
  const service = await startService(t, over);
  const file = join(t.testdirName, 'rollcall.yaml');
  await writeFile(file, JSON.stringify({ ...CONFIG, ...over, log: { level: 'info' } }));
  if (packages) await symlink(packages, join(t.testdirName, 'node_modules'));
  await synced(t, service, 'regulars');
  return { ...service, file };
}

export async function synced(t: Test, { post }: Service, key: string): Promise<void> {
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
export function planTimes({ ask }: Service, times: number) {
  const client = new AbortController();
  const answers: Response[] = [];
  // On a busy machine a connection may not be made in time.
  const askOnce = async (): Promise<void> => {
    try {
      answers.push(await ask(PLAN, { token: SECRETS.reader, signal: client.signal }));
    } catch {
      if (!client.signal.aborted) await askOnce();
    }
  };
  const asked = Array.from({ length: times }, askOnce);
  return {
    answers,
    async hangUp() {
      client.abort();
      await Promise.all(asked);
    },
  };
}

/** Checks that readers hold nothing that syncs and deletions wait for. */
export function readersHoldNothing(t: Test, name: string, open: (t: Test) => Promise<Warehouse> | Warehouse): void {
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
