import { randomInt } from 'node:crypto';
import t, { type Test } from 'tap';
import { LeaseLost } from '../../receivers/index.ts';
import { startFastPostgres } from '../helpers/postgres.ts';
import { type App, Fleet } from './fleet/fleet.ts';
import { Model } from './fleet/model.ts';
import { openTables } from './fleet/tables.ts';
import { membership, post, secret } from './helpers/samples.ts';

/** FLEET_SEED=N repeats what a run sends, not the timing of its processes. `npm run test:receivers` takes 2,000 steps. */
const SEED = Number(process.env['FLEET_SEED'] ?? randomInt(2 ** 31));
const STEPS = Number(process.env['RECEIVER_STEPS'] ?? 40);
const APPS = 3;
const LEASE = 600;

const server = await startFastPostgres();
t.teardown(() => server.stop());
const databases: Record<string, (t: Test) => Promise<string>> = {
  postgres: () => server.database(),
  sqlite: async (t) => `${t.testdir()}/app.db`,
};

async function open(database: string, lease: number, deadline: number, apps: number) {
  const tables = await openTables(database, lease);
  await tables.create();
  const fleet = new Fleet({ database, secret, lease, deadline });
  await fleet.start(apps);
  return { tables, fleet };
}

for (const [name, database] of Object.entries(databases)) {
  t.test(
    `${name}: ends with the last state sent and each track once in three apps that are killed and stopped`,
    async (t) => {
      t.comment(`FLEET_SEED=${SEED}`);
      const { tables, fleet } = await open(await database(t), LEASE, LEASE / 4, APPS);
      t.teardown(() => tables.close());
      t.teardown(() => fleet.close());
      const model = new Model({ fleet, tables, secret, lease: LEASE, seed: SEED });
      for (let step = 0; step < STEPS; step += 1) await model.step();
      await model.settle();
      t.comment(JSON.stringify({ ...model.counts, errors: Object.fromEntries(fleet.errors) }));
      t.same(fleet.ended, [], 'no app ended by itself');
      t.ok(model.counts.kills > 0 && model.counts.stops > 0);
    },
  );
}

t.test('undoes only unfenced writes when an app is suspended in its handlers past its lease', async (t) => {
  const { tables, fleet } = await open(await server.database(), LEASE, LEASE / 4, 2);
  t.teardown(() => tables.close());
  t.teardown(() => fleet.close());
  const [suspended, other] = fleet.apps as [App, App];
  const audiences = ['transaction', 'conditional', 'plain'];

  const begun = suspended.next('began', audiences.length);
  const late = audiences.map((key) => post(`${suspended.url}?hold`, membership(key, 'u1', true, 1)));
  await begun;
  const goOn = fleet.suspend(0);
  for (const key of audiences) {
    const body = membership(key, 'u1', false, 2);
    let status = 0;
    // As a sender does, until the lease has ended.
    while (status !== 200) ({ status } = await post(other.url, body));
  }
  const ended = suspended.next('ended', audiences.length);
  goOn();
  await ended;
  for (const answer of late) t.equal((await answer).status, 503, 'nobody hears that it was done');

  const rows = await tables.rows('select audience, is_member, sequence::int from member order by audience');
  t.same(rows, [
    { audience: 'conditional', is_member: 0, sequence: 2 },
    // The documents warn of this: a handler that overwrites whatever is there.
    { audience: 'plain', is_member: 1, sequence: 1 },
    { audience: 'transaction', is_member: 0, sequence: 2 },
  ]);
  // And on.error hears why.
  await fleet.heard(`handler: ${new LeaseLost().message}`);
});
