import t, { type Test } from 'tap';
import { send } from '../events/helpers/logging-app.ts';
import { caughtUp, delivered } from '../live/helpers/service.ts';
import { deletingService, deliveredLater, forget, fresh, membersIn } from './helpers/deleting-service.ts';

const HOUR = 3_600_000;
const scheduled = { schedule: '0 0 1 1 *' };
const common = { source: 'personas', guard: { allowEmpty: true } };
const buyers = { ...common, when: { performed: 'Bought', within: '1 hour' } };
const count = { ...common, value: { count: 'Bought', within: '1 hour' } };

/** A service in whose audiences and traits these users are, all of which is delivered. */
async function serviceOf(t: Test, users: readonly string[]) {
  const service = await deletingService(t, {
    audiences: [
      { ...buyers, name: 'Live', live: true },
      { ...buyers, name: 'Columns live', live: true, with: { plan: { trait: 'plan' } }, sends: 'any' },
      { ...buyers, name: 'Scheduled', ...scheduled },
    ],
    traits: [
      { ...count, name: 'Count live', live: true },
      { ...count, name: 'Count', ...scheduled },
    ],
  });
  const { app } = service;
  await caughtUp(app);
  await send(
    app,
    users.flatMap((userId) => [
      { type: 'identify', userId, traits: { plan: 'pro' } },
      { type: 'track', event: 'Bought', userId },
    ]),
  );
  await caughtUp(app);
  t.equal(await sync(service), 2 * users.length);
  await deliveredLater(service);
  return service;
}

/** Runs what is scheduled. Resolves to the number of members. */
async function sync({ app }: Awaited<ReturnType<typeof deletingService>>): Promise<number> {
  const reports = await app.sync.run(['scheduled', 'count']);
  for (const { error } of reports) if (error) throw error;
  return reports.reduce((sum, { runs }) => sum + (runs.at(-1)?.members ?? 0), 0);
}

t.test('says nothing of whoever leaves by time while the deletion is under way, and lets others leave', async (t) => {
  const service = await serviceOf(t, ['bob', 'carl', 'dora']);
  const { app, endpoint } = service;
  const { told } = app.store;
  t.equal(await forget(app, ['dora'], 'SUPPRESS_ONLY'), 'FINISHED');
  const begun = endpoint.posts.length;
  const held = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  Object.assign(app.store, {
    told: async (...given: Parameters<typeof told>) => {
      opened.resolve();
      await held.promise;
      return told(...given);
    },
  });
  const ended = forget(app, ['bob']);
  await opened.promise;
  service.advance(2 * HOUR);
  for (const key of ['live', 'columns_live', 'count_live'])
    while ((await membersIn(app, key)).some((user) => user !== 'bob'))
      await new Promise((done) => setTimeout(done, 20));
  t.equal(await sync(service), 0);
  await delivered(app);
  t.equal(endpoint.posts.slice(begun).filter(({ userId }) => userId === 'carl').length, 5, 'somebody who stays');
  held.resolve();
  t.equal(await ended, 'FINISHED');
  await deliveredLater(service);
  t.same(typesOf(endpoint.posts.slice(begun), 'bob'), ['delete', 'delete']);
  for (const key of ['live', 'columns_live', 'count_live']) t.same(await membersIn(app, key), []);
});

t.test('says nothing of whom a rebuilt state misses before their deletion reaches it', async (t) => {
  const service = await serviceOf(t, ['bob', 'carl']);
  const { app, endpoint } = service;
  const { live } = app.store;
  const { forgetUsers } = live;
  const begun = endpoint.posts.length;
  Object.assign(live, {
    forgetUsers: async (...given: Parameters<typeof forgetUsers>) => {
      // The log has lost the user by now. Another request may ask for this.
      await live.renewStates(null);
      await fresh(app);
      await delivered(app);
      await forgetUsers(...given);
    },
  });
  t.equal(await forget(app, ['bob']), 'FINISHED');
  await deliveredLater(service);
  t.same(typesOf(endpoint.posts.slice(begun), 'bob'), ['delete', 'delete']);
  for (const key of ['live', 'columns_live', 'count_live']) t.same(await membersIn(app, key), ['carl']);
});

const typesOf = (posts: readonly { readonly type: string; readonly userId?: string }[], user: string) =>
  posts.flatMap(({ type, userId }) => (userId === user ? type : []));
