import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import t from 'tap';
import { folderFiles } from '../../src/store/events/files.ts';
import { seenEvents } from '../../src/store/events/seen.ts';
import { AS_ADMIN } from '../helpers/admin.ts';
import { isOnPostgres } from '../helpers/store.ts';
import { loggingService, membersOf, send } from './helpers/logging-app.ts';

const BUYERS = {
  name: 'Buyers',
  sql: `select user_id from tracks where event = 'Order Completed' group by 1 having count(*) >= 2`,
};
const order = (userId: string, messageId: string) => ({ type: 'track', event: 'Order Completed', userId, messageId });

t.test('makes collected events readable at once, in the collecting process and in others', async (t) => {
  const service = loggingService(t);
  const app = await service.open([BUYERS]);
  await app.start({ collect: true, schedules: false });
  await send(app, [order('ann', '1'), order('ann', '2'), order('bob', '3')]);
  t.equal(await membersOf(app, 'buyers'), 1);
  await send(app, [order('bob', '3'), order('bob', '3')]);
  t.equal(await membersOf(app, 'buyers'), 1, 'an event that is sent again is in the log once');
  const other = await service.open([BUYERS]);
  await send(app, [order('bob', '4')]);
  t.equal(await membersOf(other, 'buyers'), 2);
  const metrics = await (await fetch(`${app.address}/metrics`, { headers: AS_ADMIN })).text();
  const metric = (name: string) => new RegExp(`^rollcall_event_log_${name} (\\d+)`, 'm').exec(metrics)?.[1] ?? null;
  t.match(
    Object.fromEntries(
      ['files', 'unsealed_events', 'sealing_lag_seconds', 'failures_total'].map((name) => [name, metric(name)]),
    ),
    // A week of parts is made before it begins.
    isOnPostgres
      ? { files: '8', unsealed_events: null, sealing_lag_seconds: null, failures_total: '0' }
      : { files: '0', unsealed_events: '4', sealing_lag_seconds: /\d/, failures_total: '0' },
  );
  t.ok(isOnPostgres ? Number(metric('bytes')) > 0 : metric('bytes') === '0');
});

t.test('provides views with the documented columns', async (t) => {
  const service = loggingService(t);
  const columns: [string, string][] = [
    [
      'all_as_said',
      "message_id = 'm1' and type = 'track' and event = 'A' and user_id = 'u' and anonymous_id = 'a' and source = 'shop'",
    ],
    [
      'times',
      "timestamp = timestamp '2026-02-28 10:00:00.250' and received_at > timestamp '2026-03-01' and day = date '2026-03-01'",
    ],
  ];
  const audiences = [
    ...columns.map(([name, where]) => ({ name, sql: `select user_id from tracks where ${where}` })),
    { name: 'clamped', sql: `select user_id from tracks where event = 'Future' and timestamp = received_at` },
    { name: 'far', sql: `select user_id from tracks where event = 'Far' and timestamp = received_at` },
    { name: 'early', sql: `select user_id from tracks where event = 'Early' and timestamp < timestamp '0002-01-01'` },
    { name: 'odd', sql: `select user_id from tracks where event = 'Odd'` },
    {
      name: 'others',
      sql: `select user_id from pages where name = 'Home' union all select user_id from screens union all select user_id from groups where group_id = '7'`,
    },
    {
      name: 'links',
      sql: `select user_id from identity_links where (kind = 'anonymous' and id = 'a1') or (kind = 'alias' and id = 'old')`,
    },
    {
      name: 'people',
      sql: `select user_id from identities where (kind = 'anonymous' and id = 'a1') or (kind = 'user' and id = 'old')`,
    },
    {
      name: 'traits',
      sql: `select user_id from users where (traits ->> 'email') = 'z@y.example' and (traits ->> 'plan') = 'pro'`,
    },
    { name: 'everything', sql: `select message_id as user_id from events` },
    { name: 'loud', sql: `select user_id from TRACKS join Users using (user_id) where event = 'A'` },
  ];
  const app = await service.open(audiences);
  await app.start({ collect: true, schedules: false });
  await send(app, [
    {
      type: 'track',
      event: 'A',
      userId: 'u',
      anonymousId: 'a',
      messageId: 'm1',
      timestamp: '2026-02-28T10:00:00.250Z',
    },
    { type: 'track', event: 'Future', userId: 'u', timestamp: '2030-01-01T00:00:00Z' },
    { type: 'track', event: 'Far', userId: 'u', timestamp: '+012000-01-01T00:00:00.000Z' },
    { type: 'track', event: 'Early', userId: 'u', timestamp: '0000-01-01T00:00:00.000Z' },
    {
      type: 'track',
      event: 'Odd',
      userId: 'u',
      properties: { half: '\ud800', nul: 'a\0b', deep: [[[{}]]], big: 1e300 },
      extra: [1],
    },
    { type: 'page', name: 'Home', userId: 'p' },
    { type: 'screen', name: 'Home', userId: 's' },
    { type: 'group', groupId: 7, userId: 'g', traits: { plan: 'pro' } },
    {
      type: 'identify',
      userId: 'u1',
      anonymousId: 'a1',
      traits: { email: 'x@y.example' },
      timestamp: '2026-02-01T00:00:00Z',
    },
    { type: 'identify', userId: 'u3', traits: {} },
    {
      type: 'identify',
      userId: 'u1',
      traits: { email: 'z@y.example', plan: 'free' },
      timestamp: '2026-02-02T00:00:00Z',
    },
    { type: 'identify', userId: 'u1', traits: { plan: 'pro' }, timestamp: '2026-02-03T00:00:00Z' },
    { type: 'alias', userId: 'u2', previousId: 'old' },
  ]);
  const expected = {
    all_as_said: 1,
    times: 1,
    clamped: 1,
    far: 1,
    early: 1,
    odd: 1,
    others: 3,
    links: 2,
    people: 2,
    traits: 1,
    everything: 13,
    loud: 1,
  };
  for (const [key, members] of Object.entries(expected)) t.equal(await membersOf(app, key), members, key);
});

t.test('logs only configured sources, and never messages of syncs', async (t) => {
  const service = loggingService(t);
  const audiences = [{ name: 'everyone', sql: 'select message_id as user_id from events' }];
  const app = await service.open(audiences, { eventLog: { sources: ['shop'] } });
  await app.start({ collect: true, schedules: false });
  await send(app, [order('ann', '1')]);
  await send(app, [order('ann', '2')], 'personas-key');
  t.equal(await membersOf(app, 'everyone'), 1);
  t.equal(await membersOf(app, 'everyone'), 1);
});

const skip = isOnPostgres ? 'of DuckDB alone' : false;
t.test('lets macros of the database read views that the SQL does not name', { skip }, async (t) => {
  const service = loggingService(t);
  const instance = await DuckDBInstance.create(join(service.folder, 'audiences.duckdb'));
  const connection = await instance.connect();
  await connection.run(`CREATE TABLE tracks (user_id varchar);
    CREATE MACRO active() AS TABLE SELECT user_id FROM tracks;
    DROP TABLE tracks`);
  connection.closeSync();
  instance.closeSync();
  const app = await service.open([{ name: 'active', sql: 'select user_id from active() join users using (user_id)' }]);
  await app.start({ collect: true, schedules: false });
  await send(app, [order('ann', '1')]);
  t.equal(await membersOf(app, 'active'), 1);
});

t.test('reads the log in short definitions', async (t) => {
  const service = loggingService(t);
  const buyers = { name: 'Buyers', when: { performed: 'Order Completed', atLeast: 2, within: '90 days' } };
  const app = await service.open([buyers]);
  await app.start({ collect: true, schedules: false });
  await send(app, [order('ann', '1'), order('ann', '2'), order('bob', '3')]);
  t.equal(await membersOf(app, 'buyers'), 1);
});

t.test('lists the track events that it has seen, with the types of their properties', async (t) => {
  const service = loggingService(t);
  const app = await service.open();
  await app.start({ collect: true, schedules: false });
  const types = { a: 1, b: 'x', c: true, d: null, e: [1], f: { g: 1 }, h: 1.5 };
  await send(app, [
    { type: 'track', event: 'Odd', userId: 'u', properties: types },
    { type: 'track', event: 'Odd', userId: 'u', properties: { a: 'text' } },
    { type: 'track', event: 'Bare', userId: 'u' },
    { type: 'page', name: 'No track', userId: 'u', properties: { a: 1 } },
  ]);
  const seen = await seenEvents(app.store.events, folderFiles(join(service.folder, 'events')), () => 'token');
  const once = (name: string, type: string) => ({ name, types: [type], isRequired: false });
  t.same(seen, [
    { name: 'Bare', properties: [] },
    {
      name: 'Odd',
      properties: [
        { name: 'a', types: ['number', 'string'], isRequired: true },
        ...[once('b', 'string'), once('c', 'boolean'), once('d', 'null'), once('e', 'array'), once('f', 'object')],
        once('h', 'number'),
      ],
    },
  ]);
});
