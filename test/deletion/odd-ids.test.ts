import t from 'tap';
import { isPlaceholder } from '../../src/kernel/placeholders.ts';
import { send } from '../events/helpers/logging-app.ts';
import { caughtUp } from '../live/helpers/service.ts';
import { deletingService, forget, membersIn } from './helpers/deleting-service.ts';

const bought = (who: object, messageId: string) => ({ type: 'track', event: 'Bought', messageId, ...who });

t.test('knows ids that mean nobody in any case of ASCII letters, and no others', async (t) => {
  for (const id of ['undefined', 'NULL', 'NaN', '0', '[object Object]', '{}', 'Guest']) t.ok(isPlaceholder(id), id);
  // The last one has a Kelvin sign, whose lower case is a k.
  for (const id of ['', '00', 'nobody', 'null ', 'undefined1', '{ }', 'un\u212Anown']) t.notOk(isPlaceholder(id), id);
});

t.test('links nobody by ids that mean nobody, lets them in where allowed, and passes their messages', async (t) => {
  const when = { performed: 'Bought', atLeast: 1 };
  const common = { source: 'personas', when };
  const { app, endpoint, open } = await deletingService(t, {
    audiences: [
      { ...common, name: 'Live', live: true },
      { ...common, name: 'Scheduled', schedule: '0 0 1 1 *' },
      { ...common, name: 'All Live', live: true, allowPlaceholders: true },
      { ...common, name: 'All Scheduled', schedule: '0 0 1 1 *', allowPlaceholders: true },
    ],
  });
  await send(app, [
    bought({ userId: 'p1' }, 'm1'),
    bought({ userId: 'p2' }, 'm2'),
    { type: 'alias', previousId: 'p1', userId: 'undefined', messageId: 'm3' },
    { type: 'alias', previousId: 'p2', userId: 'undefined', messageId: 'm4' },
    bought({ anonymousId: 'Null' }, 'm5'),
    { type: 'identify', userId: 'q1', anonymousId: 'Null', messageId: 'm6' },
    bought({ userId: 'NaN' }, 'm7'),
    bought({ userId: 'un\u212Anown' }, 'm8'),
  ]);
  await caughtUp(app);
  for (const key of ['live', 'scheduled'] as const)
    t.same(await membersIn(app, key), ['p1', 'p2', 'un\u212Anown'], key);
  for (const key of ['all_live', 'all_scheduled'] as const)
    t.same(await membersIn(app, key), ['NaN', 'p1', 'p2', 'un\u212Anown'], key);
  for (const key of ['scheduled', 'live']) t.match(await app.sync.plan([key]), [{ invalid: 1, placeholders: [] }], key);
  t.match(await app.sync.plan(['all_live']), [{ invalid: 0 }]);
  let discards = await app.store.discards({ limit: 10 });
  for (; discards.length < 3; discards = await app.store.discards({ limit: 10 }))
    await new Promise((done) => setTimeout(done, 20));
  t.same(
    discards.map(({ code }) => code),
    ['placeholder_id', 'placeholder_id', 'placeholder_id'],
  );
  while (!endpoint.posts.some(({ messageId }) => messageId === 'm7')) await new Promise((done) => setTimeout(done, 20));
  t.ok(endpoint.posts.some(({ messageId }) => messageId === 'm4'));
  await app.close();
  const later = await open([{ name: 'All Scheduled', when }]);
  t.match(
    await later.sync.plan(['all_scheduled']),
    [{ exited: 1, placeholders: ['NaN'] }],
    'members from before leave',
  );
  t.equal(await forget(later, ['0', 'NaN']), 'FINISHED');
});

t.test('lets no clock that is years off decide who was first', async (t) => {
  const value = { first: 'Bought', of: 'properties.n' };
  const common = { source: 'personas' };
  const { app, endpoint } = await deletingService(t, {
    audiences: [
      { ...common, name: 'Live', live: true, when: { performed: 'Bought' } },
      { ...common, name: 'Scheduled', schedule: '0 0 1 1 *', when: { performed: 'Bought' } },
    ],
    traits: [
      { ...common, name: 'First Live', live: true, value },
      { ...common, name: 'First Scheduled', schedule: '0 0 1 1 *', value },
    ],
  });
  await send(app, [
    { ...bought({ anonymousId: 'd1', properties: { n: 1 } }, 'm1') },
    { type: 'identify', userId: 'real', anonymousId: 'd1', messageId: 'm2' },
  ]);
  await caughtUp(app);
  await send(app, [
    { type: 'identify', userId: 'thief', anonymousId: 'd1', messageId: 'm3', timestamp: '0001-01-01T00:00:00Z' },
    { type: 'identify', userId: 'other', anonymousId: 'd1', messageId: 'm4', timestamp: '2020-01-01T00:00:00Z' },
    { ...bought({ userId: 'real', properties: { n: 2 } }, 'm5'), timestamp: '1970-01-01T00:00:00Z' },
  ]);
  await caughtUp(app);
  for (const key of ['live', 'scheduled'] as const) t.same(await membersIn(app, key), ['real'], key);
  await app.sync.run(['first_scheduled']);
  for (const key of ['first_live', 'first_scheduled'])
    await app.sync.members(key, async (rows) => void t.match(rows, { userIds: ['real'], values: [/: ?1}$/] }, key));
  while (!endpoint.posts.some(({ messageId }) => messageId === 'm3')) await new Promise((done) => setTimeout(done, 20));
  const posted = endpoint.posts.find(({ messageId }) => messageId === 'm3');
  t.match(JSON.parse(posted?.text ?? ''), { timestamp: '0001-01-01T00:00:00.000Z' }, 'bodies keep what was given');
});
