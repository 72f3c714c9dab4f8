import t, { type Test } from 'tap';
import { startFastPostgres } from '../helpers/postgres.ts';
import type { Json } from './contract.ts';
import { SECRETS, V1 } from './service.ts';
import { shop } from './shop.ts';

async function postgresShop(t: Test) {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const url = await server.store();
  const audiences = [
    { name: 'Buyers', source: 'shop', when: { performed: 'Order Completed' } },
    { name: 'By hand', source: 'shop', sql: "select 'u' || n as user_id from generate_series(0, 3) as numbers(n)" },
    { name: 'Live ones', source: 'shop', live: true, when: { performed: 'Cart Viewed' } },
  ];
  const service = await shop(t, { store: url, engines: { lake: { type: 'postgres', url } }, audiences });
  await service.app.sync.run();
  const tried = async (draft: object): Promise<Json> =>
    (await service.post(`${V1}/try`, { draft: { name: 'New', source: 'shop', ...draft } })).json();
  return { ...service, tried };
}

t.test('tries definitions in Postgres', async (t) => {
  const { tried, json, app } = await postgresShop(t);
  const step = { performed: 'Order Completed' };
  const when = { all: [step, { trait: 'plan', is: 'pro' }, { not: { sequence: [step, { viewed: 'Home' }] } }] };
  const found = await tried({ when });
  t.same({ mistakes: found.mistakes, failure: found.failure }, { mistakes: [], failure: null });
  t.match(found.people, {
    members: 1,
    funnel: [
      { people: 2, left: 2 },
      { people: 1, left: 1 },
    ],
    sample: [
      {
        userId: 'u1',
        why: [
          { path: 'when.all[0]', times: 2 },
          { path: 'when.all[1]', value: 'pro' },
          { path: 'when.all[2].not.sequence[0]', times: 2 },
        ],
      },
    ],
  });
  t.same(
    found.overlap.map(({ key, members, both }: Json) => [key, members, both]),
    [
      ['buyers', 2, 1],
      ['by_hand', 4, 1],
      ['live_ones', 1, 0],
    ],
  );
  t.equal(found.past.at(-1).members, 1);
  const edited = await tried({
    name: 'By hand',
    sql: "select distinct user_id from tracks where event = 'Order Completed'",
  });
  t.match(edited, {
    failure: null,
    people: { members: 2 },
    difference: { before: 4, entered: 0, exited: 2, sample: [{ change: 'exited' }, { change: 'exited' }] },
  });
  const trait = await tried({ name: 'Orders', value: { sum: 'Order Completed', of: 'properties.total' } });
  t.match(trait, { failure: null, difference: { before: 2, entered: 0, exited: 0, changed: 2 } });
  const names = await json(`${V1}/try/names`, { token: SECRETS.reader });
  t.match(names, {
    events: [{ name: 'Cart Viewed' }, { name: 'Home' }, { name: 'Order Completed', properties: ['cart id', 'total'] }],
    traits: ['age', 'plan'],
  });
  t.equal((await app.store.audiences()).length, 4);
});

t.test('SQL that is tried only reads in Postgres', async (t) => {
  const { tried, app } = await postgresShop(t);
  const version = (await app.store.audience('by_hand'))?.version;
  const attacks: Readonly<Record<string, string>> = {
    'a change within a query':
      'with gone as (delete from rollcall.snapshots returning key) select key as user_id from gone',
    'another mode of the transaction': "select set_config('transaction_read_only', 'off', false) as user_id",
    'a sequence':
      "select nextval(pg_get_serial_sequence('rollcall.runs', 'n'))::text as user_id from generate_series(1, 2)",
    'a second statement': "select 'u' as user_id; drop schema rollcall cascade",
    'a second statement that looks like a text':
      "select 'a' as user_id, 1 as a$$ ; drop schema rollcall cascade; select 'b' as user_id, 2 as b$$",
    'a program': "copy (select 1) to program 'true'",
  };
  for (const [what, sql] of Object.entries(attacks)) {
    t.match(await tried({ sql }), { people: null, failure: { code: 'sql_failed' } }, what);
  }
  t.equal((await app.store.audience('by_hand'))?.version, version);
  t.match(await tried({ sql: "select 'u' as user_id" }), { people: { members: 1 } });
});
