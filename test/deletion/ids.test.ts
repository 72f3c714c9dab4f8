import t, { type Test } from 'tap';
import type { App } from '../../src/app.ts';
import { send } from '../events/helpers/logging-app.ts';
import { caughtUp, computed } from '../live/helpers/service.ts';
import { deletingService, deliveredLater, everything, forget, fresh, membersIn } from './helpers/deleting-service.ts';

const bought = (who: object, messageId: string) => ({ type: 'track', event: 'Bought', messageId, ...who });

t.test('posts nothing of a person after the notice, under any of their ids', async (t) => {
  const service = await deletingService(t);
  const { app, endpoint, folder, url } = service;
  endpoint.status = 503;
  await send(app, [
    bought({ anonymousId: 'cookie-1' }, 'm1'),
    { type: 'identify', userId: 'person-u', anonymousId: 'cookie-1', messageId: 'm2' },
    bought({ userId: 'former-u' }, 'm3'),
    { type: 'alias', previousId: 'former-u', userId: 'person-u', messageId: 'm4' },
    bought({ userId: 'somebody-else', anonymousId: 'cookie-1' }, 'm5'),
  ]);
  await caughtUp(app);
  while ((await app.store.attempts({ limit: 100 })).length < 1) await new Promise((done) => setTimeout(done, 20));
  t.equal(await forget(app, ['person-u']), 'FINISHED');
  for (const [place, text] of await everything(folder, url)) t.notMatch(text, 'cookie-1', place);
  endpoint.status = 200;
  await deliveredLater(service);
  const { posts } = endpoint;
  const notices = posts.filter(({ type }) => type === 'delete').map(({ userId }) => userId);
  t.same(notices.toSorted(), ['former-u', 'former-u', 'person-u', 'person-u'], 'one of each user id and source');
  t.same(
    posts.filter(({ text }) => text.includes('cookie-1')),
    [],
  );
  for (const id of ['cookie-1', 'former-u', 'person-u'])
    for (const [place, text] of await everything(folder, url)) t.notMatch(text, id, place);
  const kept = posts.find(({ messageId }) => messageId === 'm5');
  t.match(JSON.parse(kept?.text ?? '{}'), { userId: 'somebody-else', event: 'Bought', anonymousId: undefined });
  t.same(await membersIn(app, 'live'), ['somebody-else']);
  t.same(await membersIn(app, 'scheduled'), ['somebody-else']);
});

t.test('leaves a device to the first user when a later one is deleted', async (t) => {
  const { app } = await deletingService(t);
  await send(app, [
    bought({ anonymousId: 'tablet' }, 'm1'),
    { type: 'alias', previousId: 'tablet', userId: 'ann', messageId: 'm2' },
    { type: 'alias', previousId: 'tablet', userId: 'bob', messageId: 'm3' },
    { type: 'identify', userId: 'cleo', anonymousId: 'tablet', messageId: 'm4' },
  ]);
  await caughtUp(app);
  t.same(await membersIn(app, 'live'), ['ann']);
  t.equal(await forget(app, ['bob']), 'FINISHED');
  t.same(await membersIn(app, 'live'), ['ann']);
  t.same(await membersIn(app, 'scheduled'), ['ann']);
});

t.test('spares a user who was aliased to the deleted one, and to another later', async (t) => {
  const { app } = await deletingService(t);
  await send(app, [
    bought({ userId: 'id-1' }, 'm1'),
    { type: 'alias', previousId: 'id-1', userId: 'x', messageId: 'm2' },
    { type: 'alias', previousId: 'id-1', userId: 'y', messageId: 'm3' },
  ]);
  await caughtUp(app);
  t.same(await membersIn(app, 'live'), ['y']);
  t.equal(await forget(app, ['x']), 'FINISHED');
  t.same(await membersIn(app, 'live'), ['y']);
  t.same(await membersIn(app, 'scheduled'), ['y']);
});

t.test('keeps the aliases of an id that stays in its other role, as the log does', async (t) => {
  const { app } = await deletingService(t);
  // One is a user's and a device of somebody else, the other a device of the user and somebody else's user id.
  await send(app, [
    { type: 'alias', previousId: 'one', userId: 'ann', messageId: 'm1' },
    bought({ userId: 'bob', anonymousId: 'one' }, 'm2'),
    { type: 'identify', userId: 'zoe', anonymousId: 'two', messageId: 'm3' },
    { type: 'alias', previousId: 'two', userId: 'cleo', messageId: 'm4' },
    { type: 'page', name: 'Home', userId: 'two', messageId: 'm5' },
  ]);
  await caughtUp(app);
  t.same(await membersIn(app, 'live'), ['bob']);
  t.equal(await forget(app, ['one']), 'FINISHED');
  t.equal(await forget(app, ['zoe']), 'FINISHED');
  await fresh(app);
  await send(app, [bought({ userId: 'one' }, 'm6'), bought({ anonymousId: 'two' }, 'm7')]);
  t.same(await membersIn(app, 'live'), ['ann', 'bob', 'cleo']);
  t.same(await membersIn(app, 'scheduled'), ['ann', 'bob', 'cleo']);
});

t.test('forgets of others what only an erased alias said', async (t) => {
  const { app } = await serviceOfAliased(t);
  t.equal(await forget(app, ['old-zoe']), 'FINISHED');
  await fresh(app);
  t.same(await membersIn(app, 'live'), ['ann']);
  t.same(await membersIn(app, 'scheduled'), ['ann']);
});

t.test('builds no state from an alias that the log is about to lose', async (t) => {
  const { app } = await serviceOfAliased(t);
  const { told } = app.store;
  const { beginState, endBuild } = app.store.live;
  const begun = Promise.withResolvers<void>();
  const tried = Promise.withResolvers<void>();
  let builds = 0;
  Object.assign(app.store, {
    told: async (...given: Parameters<typeof told>) => {
      begun.resolve();
      await tried.promise;
      return told(...given);
    },
  });
  Object.assign(app.store.live, {
    beginState: (...given: Parameters<typeof beginState>) => {
      builds += 1;
      if (builds === 2) tried.resolve();
      return beginState(...given);
    },
    endBuild: (...given: Parameters<typeof endBuild>) => endBuild(...given).then(tried.resolve),
  });
  const ended = forget(app, ['old-zoe']);
  await begun.promise;
  await app.store.live.rebuildAll();
  t.equal(await ended, 'FINISHED');
  await membersBecome(app, ['ann']);
  t.same(await membersIn(app, 'scheduled'), ['ann']);
});

t.test('says that a deletion made a change, and keeps causes on hold', async (t) => {
  const { app } = await deletingService(t);
  await caughtUp(app);
  await send(app, [
    bought({ userId: 'old-zoe' }, 'm1'),
    { type: 'alias', previousId: 'old-zoe', userId: 'zoe', messageId: 'm2' },
  ]);
  await membersBecome(app, ['zoe']);
  t.equal(await forget(app, ['old-zoe']), 'FINISHED');
  await membersBecome(app, []);
  const { changes } = await app.sync.why('live', 'zoe');
  t.match(changes, [
    { change: 'entered', cause: { event: { messageId: 'm2' }, deletion: false } },
    { change: 'left', cause: { event: null, deletion: true, time: null } },
  ]);
  await app.store.live.holdAudience('live', 'rejected', null);
  await new Promise((done) => setTimeout(done, 1_500));
  await send(app, [bought({ userId: 'zoe' }, 'm3')]);
  while ((await app.store.live.changesBehind('live', 10)).length === 0)
    await new Promise((done) => setTimeout(done, 20));
  await app.store.live.holdAudience('live', null, 0);
  await membersBecome(app, ['zoe']);
  t.match((await app.sync.why('live', 'zoe')).changes.at(-1), {
    change: 'entered',
    cause: { event: { messageId: 'm3' } },
  });
});

t.test('counts what the log keeps of somebody who returns before the deletion ends', async (t) => {
  const { app, endpoint } = await deletingService(t);
  await caughtUp(app);
  const answers = Promise.withResolvers<void>();
  endpoint.answers = answers.promise;
  await send(app, [bought({ userId: 'zoe' }, 'm1')]);
  await computed(app);
  const [id] = await Promise.all([
    app.regulations.file({ type: 'DELETE_ONLY', sources: null, userIds: ['zoe'] }),
    membersBecome(app, []),
  ]);
  await send(app, [bought({ userId: 'zoe' }, 'm2')]);
  await computed(app);
  t.equal((await app.regulations.find(id))?.status, 'RUNNING', 'a request is in flight');
  answers.resolve();
  await membersBecome(app, ['zoe']);
  t.same(await membersIn(app, 'scheduled'), ['zoe']);
  t.equal((await app.regulations.find(id))?.status, 'FINISHED');
});

t.test('counts what the log has of somebody who returned before a state is built', async (t) => {
  const { app } = await deletingService(t);
  await send(app, [bought({ userId: 'zoe' }, 'm1')]);
  await caughtUp(app);
  const { deletions } = app.store;
  const built = Promise.withResolvers<void>();
  Object.assign(app.store, {
    deletions: async (since: number | null) => {
      const found = await deletions(since);
      if (!new Error().stack?.includes('live/build.ts')) return found;
      // The first time only, before the log is read.
      Object.assign(app.store, { deletions });
      t.equal(await forget(app, ['zoe']), 'FINISHED');
      await send(app, [bought({ userId: 'zoe' }, 'm2')]);
      built.resolve();
      return found;
    },
  });
  await app.store.live.renewStates(null);
  await built.promise;
  await fresh(app);
  t.same(await membersIn(app, 'live'), ['zoe']);
  t.same(await membersIn(app, 'scheduled'), ['zoe']);
});

t.test(
  'counts what the log has of somebody who returned before the state forgets, wherever it is by then',
  async (t) => {
    const service = await deletingService(t);
    const { app } = service;
    const { live, events } = app.store;
    const { forgetUsers } = live;
    await send(app, [bought({ userId: 'zoe' }, 'm1')]);
    await caughtUp(app);
    Object.assign(live, {
      forgetUsers: async (...given: Parameters<typeof forgetUsers>) => {
        Object.assign(live, { forgetUsers });
        await send(app, [bought({ userId: 'zoe' }, 'm2')]);
        await computed(app);
        // The tail becomes a file.
        service.advance(20 * 60_000);
        while (events.kind === 'files' && (await events.state()).tail.last > 0)
          await new Promise((done) => setTimeout(done, 50));
        await forgetUsers(...given);
      },
    });
    t.equal(await forget(app, ['zoe']), 'FINISHED');
    await membersBecome(app, ['zoe']);
    await fresh(app);
    t.same(await membersIn(app, 'live'), ['zoe']);
    t.same(await membersIn(app, 'scheduled'), ['zoe']);
  },
);

t.test('keeps nothing of somebody whom the log loses while a state is built from it', async (t) => {
  const { app, folder, url } = await deletingService(t);
  await send(app, [bought({ userId: 'user-zoe', anonymousId: 'cookie-1' }, 'm1')]);
  await caughtUp(app);
  const { told, erase } = app.store;
  const { beginState } = app.store.live;
  const begun = Promise.withResolvers<void>();
  const hasRead = Promise.withResolvers<void>();
  const forgotten = Promise.withResolvers<void>();
  Object.assign(app.store, {
    told: async (...given: Parameters<typeof told>) => {
      begun.resolve();
      await hasRead.promise;
      return told(...given);
    },
    // After log and live state.
    erase: (...given: Parameters<typeof erase>) => {
      forgotten.resolve();
      return erase(...given);
    },
  });
  const ended = forget(app, ['user-zoe']);
  await begun.promise;
  Object.assign(app.store.live, {
    beginState: async (...given: Parameters<typeof beginState>) => {
      hasRead.resolve();
      await forgotten.promise;
      Object.assign(app.store.live, { beginState });
      return beginState(...given);
    },
  });
  await app.store.live.renewStates(null);
  t.equal(await ended, 'FINISHED');
  await fresh(app);
  t.same(await membersIn(app, 'live'), []);
  for (const [place, text] of await everything(folder, url)) t.notMatch(text, /user-zoe|cookie-1/, place);
});

/** One whose audiences hold for everybody, with a user of whom the log knows an alias only. */
async function serviceOfAliased(t: Test) {
  const common = { source: 'personas', guard: { allowEmpty: true }, when: { not: { performed: 'Sold' } } };
  const service = await deletingService(t, {
    audiences: [
      { ...common, name: 'Live', live: true },
      { ...common, name: 'Scheduled', schedule: '0 0 1 1 *' },
    ],
  });
  const { app } = service;
  await send(app, [
    bought({ userId: 'old-zoe' }, 'm1'),
    { type: 'alias', previousId: 'old-zoe', userId: 'zoe', messageId: 'm2' },
    bought({ userId: 'ann' }, 'm3'),
  ]);
  await caughtUp(app);
  t.same(await membersIn(app, 'live'), ['ann', 'zoe']);
  return service;
}

async function membersBecome(app: App, members: readonly string[]): Promise<void> {
  while ((await membersIn(app, 'live')).join() !== members.join()) await new Promise((done) => setTimeout(done, 20));
}
