import type { LiveRow } from '../../src/store/live.ts';
import type { Fence, Store } from '../../src/store/port.ts';
import type { Cases } from './store.ts';
import { LONGEST_ID, LONGEST_NAME } from './store-fixture.ts';

const row = (raw: string, person: string | null, due: number | null = null, kept = '{"seen":1}'): LiveRow => {
  return { raw, person, due, oldest: 1, kept, links: '[]' };
};

async function led(store: Store): Promise<Fence> {
  const fence = await store.takeLease('live:personas', 60_000);
  if (fence === null) throw new Error('no lease');
  return fence;
}

export const liveCases: Cases = {
  'builds live state page by page, reports progress, and counts its rows': async (t, store) => {
    const fence = await led(store);
    const { epoch } = await store.deletions(null);
    const state = await store.live.beginState('personas', '[]', '7', false, fence);
    const page = { fence, state, epoch, total: 3, changes: [], quiet: [] };
    t.match(await store.live.currentState('personas'), { state, isBuilding: true, done: 0, total: 0, position: '7' });
    await store.live.addAudience('vips', 'personas', '', 'new', fence);
    const changes = [{ key: 'vips', user: 'ann', current: 'true' }];
    await store.live.fillState({ ...page, rows: [row('u:ann', 'ann', 50), row('u:bob', 'bob')], changes, done: 2 });
    t.match(await store.live.currentState('personas'), { isBuilding: true, done: 2, total: 3, ids: 2, due: 1 });
    await store.live.fillState({ ...page, rows: [row('a:x', null)], done: 3 });
    await store.live.endBuild(state, 40, fence);
    t.match(await store.live.currentState('personas'), { isBuilding: false, at: 40, ids: 3, due: 1 });
    t.equal(await store.live.nextState('personas'), null);
    t.same(await store.live.membersOf(['ann', 'bob'], ['vips']), [
      { key: 'vips', user: 'ann', current: 'true', told: null, since: 0, cause: null, changedAt: null },
    ]);
    const strays = () => store.live.strayMembers(state, 'vips', '', 10);
    await store.live.rewriteRows(state, [row('u:bob', 'bob')], [row('u:bob', 'bob', 60)], ['u:ann']);
    t.match(await store.live.currentState('personas'), { ids: 2, due: 1 });
    t.same(await strays(), { users: ['ann'], last: 'ann' }, 'a member of whom nothing is kept');
    await store.live.rewriteRows(state, [], [row('u:ann', 'ann', null, '{}')], []);
    t.same(await strays(), { users: ['ann'], last: 'ann' }, 'to be there is not enough');
    t.same(await store.live.personsAfter(state, '', 10), ['bob']);
    const known = [row('u:ann', 'ann', null, '{}'), row('u:bob', 'bob', 60)];
    await store.live.rewriteRows(state, known, [row('u:ann', 'ann')], []);
    for (const those of [known, []])
      await t.rejects(store.live.rewriteRows(state, those, [row('u:bob', 'bob')], []), { code: 'live_moved' });
    t.same(await strays(), { users: [], last: 'ann' });
    t.same(await store.live.strayMembers(state, 'vips', 'ann', 10), { users: [], last: null });
  },

  'stores the longest id and key in all live tables': async (t, store) => {
    const fence = await led(store);
    const { epoch } = await store.deletions(null);
    const state = await store.live.beginState('personas', '[]', '7', false, fence);
    const [user, key] = [LONGEST_ID, LONGEST_NAME];
    await store.live.addAudience(key, 'personas', '', null, fence);
    const rows = [row(`u:${user}`, user, 50), row(`a:${user}`, user)];
    const page = { fence, state, epoch, rows, quiet: [], done: 2, total: 2 };
    await store.live.fillState({ ...page, changes: [{ key, user, current: 'true' }] });
    await store.live.endBuild(state, 40, fence);
    for (const [version, current] of [
      [1, 'false'],
      [2, 'true'],
    ] as const) {
      const { revision = 0 } = (await store.live.currentState('personas')) ?? {};
      await store.live.commitStep({
        ...{ fence, state, revision, epoch, position: '8', at: 60, rows: [], gone: [], contents: [] },
        ...{ serves: false, named: null, more: { ids: 0, due: 0 }, quiet: [], holds: [] },
        changes: [{ key, user, current, version, cause: null, changedAt: 60 }],
        told: [{ key, from: version - 1, to: version, members: 0, record: '{}' }],
      });
    }
    t.match(await store.live.membersOf([user], [key]), [{ user, current: 'true', told: 'true', since: 2 }]);
    await store.live.savePlan('p', { key, toVersion: 3, record: '{}' });
    await store.live.addToPlan('p', [{ position: 1, user, value: null, told: null, cause: null, changedAt: null }]);
    t.match(await store.live.planRows('p', 0, 1), [{ user }]);
  },

  'gives members other columns without a message': async (t, store) => {
    const fence = await led(store);
    const { epoch } = await store.deletions(null);
    const state = await store.live.beginState('personas', '[]', '7', false, fence);
    for (const key of ['vips', 'buyers']) await store.live.addAudience(key, 'personas', '', null, fence);
    await store.live.endBuild(state, 40, fence);
    const step = async (
      version: number | null,
      values: readonly (readonly [user: string, current: string | null])[],
    ) => {
      const { revision = 0 } = (await store.live.currentState('personas')) ?? {};
      const of = (key: string) =>
        values.map(([user, current]) => ({ key, user, current, version, cause: '{}', changedAt: 60 }));
      await store.live.commitStep({
        ...{ fence, state, revision, epoch, position: '8', at: 60, rows: [], gone: [], contents: [], told: [] },
        ...{ serves: false, named: null, more: { ids: 0, due: 0 }, quiet: ['vips'], holds: [] },
        changes: [...of('vips'), ...of('buyers')],
      });
    };
    const [old, other] = ['{"plan":"basic"}', '{"plan":"pro"}'];
    await step(1, [
      ['ann', old],
      ['bob', old],
    ]);
    await step(null, [
      ['ann', other],
      ['bob', null],
      ['cid', old],
    ]);
    const known = async (key: string) =>
      (await store.live.memberPage(key, 'all', '', 10)).map(({ user, current, told, since, cause }) => [
        ...[user, current, told, since, cause],
      ]);
    const others = [
      ['bob', null, old, 1, '{}'],
      ['cid', old, null, 0, '{}'],
    ];
    t.same(await known('vips'), [['ann', other, other, 1, null], ...others]);
    t.same(await known('buyers'), [['ann', other, old, 1, '{}'], ...others]);
    t.same(
      (await store.live.changesBehind('vips', 10)).map(({ user }) => user),
      ['bob', 'cid'],
    );
    await step(null, [['bob', other]]);
    t.same((await known('vips'))[1], ['bob', other, other, 1, null], 'who returned in the meantime is as before');
  },

  'ends a build only if its input has not changed': async (t, store) => {
    const fence = await led(store);
    const state = await store.live.beginState('personas', '[]', '7', false, fence);
    await store.live.rebuildAll();
    await t.rejects(store.live.endBuild(state, 40, fence), { code: 'live_moved' });
    t.match(await store.live.currentState('personas'), { isBuilding: true });
    const next = await store.live.beginState('personas', '[]', '9', false, fence);
    await store.live.endBuild(next, 40, fence);
    t.match(await store.live.currentState('personas'), { state: next, isBuilding: false, position: '9' });
  },

  'serves from a stale state until another has replaced it and evaluated everybody': async (t, store) => {
    const fence = await led(store);
    const { epoch } = await store.deletions(null);
    const source = async () => {
      const known = await store.live.currentState('personas');
      if (known === null) throw new Error('no state');
      return known;
    };
    const step = async (state: number, serves: boolean) => {
      const { revision = 0 } = (await store.live.allStates()).find((each) => each.state === state) ?? {};
      await store.live.commitStep({
        ...{ fence, state, serves, revision, epoch, position: '10', at: 60, rows: [], contents: [], gone: [] },
        ...{ named: null, more: { ids: 0, due: 0 }, changes: [], quiet: [], told: [], holds: [] },
      });
    };
    const state = await store.live.beginState('personas', '[]', '7', false, fence);
    await store.live.renewStates(null);
    await t.rejects(store.live.endBuild(state, 40, fence), { code: 'live_moved' }, 'what is being built begins anew');
    const first = await store.live.beginState('personas', '[]', '7', false, fence);
    await store.live.endBuild(first, 40, fence);
    const { revision } = await source();
    await store.live.renewStates('shop');
    t.match(await source(), { isStale: false, revision }, 'those of another source are left alone');
    await store.live.renewStates('personas');
    t.match(await source(), { state: first, isBuilding: false, isStale: true, revision: revision + 1 });
    await step(first, false);
    const next = await store.live.beginState('personas', '[]', '9', true, fence);
    await store.live.endBuild(next, 50, fence);
    await step(next, true);
    t.match(await source(), { state: next, isBuilding: false, isStale: false, isUnseen: true });
    await step(next, false);
    await store.live.markSeen(next, fence);
    t.match(await source(), { state: next, isUnseen: false });
    await store.live.renewStates(null);
    await store.live.markSeen(next, fence);
    t.match(await source(), { isStale: true }, 'to have been seen does not end that');
    await store.live.dropSource('personas', fence);
    t.equal(await store.live.currentState('personas'), null, 'a source where nothing is live has no state');
    while (await store.live.clearOver('personas', 10));
    t.same(await store.live.allStates(), []);
  },

  'rejects a page of a build that was computed before a deletion began': async (t, store) => {
    const fence = await led(store);
    const { epoch } = await store.deletions(null);
    const state = await store.live.beginState('personas', '[]', '7', false, fence);
    const page = { fence, state, rows: [row('u:ann', 'ann')], changes: [], quiet: [], done: 1, total: 1 };
    await t.rejects(store.live.fillState({ ...page, epoch: epoch - 1 }), { code: 'epoch_moved' });
    t.same(await store.live.rowsOfIds(state, ['u:ann']), []);
  },

  'builds a state next to the serving one, switches over, and removes the old one': async (t, store) => {
    const fence = await led(store);
    const { epoch } = await store.deletions(null);
    const fill = (state: number, rows: readonly LiveRow[]) =>
      store.live.fillState({ ...{ fence, state, epoch, rows, quiet: [] }, changes: [], done: 1, total: 1 });
    const first = await store.live.beginState('personas', '[1]', '7', false, fence);
    await fill(first, [row('u:ann', 'ann'), row('u:bob', 'bob')]);
    await store.live.endBuild(first, 40, fence);
    const abandoned = await store.live.beginState('personas', '[2]', '8', true, fence);
    await fill(abandoned, [row('u:ann', 'ann')]);
    const next = await store.live.beginState('personas', '[2]', '9', true, fence);
    await fill(next, [row('u:cleo', 'cleo')]);
    await store.live.endBuild(next, 50, fence);
    t.match(await store.live.currentState('personas'), { state: first, asked: '[1]' }, 'the first one goes on serving');
    t.match(await store.live.nextState('personas'), { state: next, isBuilding: false });
    const { revision = 0 } = (await store.live.nextState('personas')) ?? {};
    const step = {
      ...{ fence, revision, epoch, position: '10', at: 60, rows: [], gone: [], more: { ids: 0, due: 0 } },
      ...{ changes: [], quiet: [], told: [], holds: [], named: null, contents: [] },
    };
    await store.live.commitStep({ ...step, state: next, serves: true });
    t.match(await store.live.currentState('personas'), { state: next, asked: '[2]', position: '10' });
    t.equal(await store.live.nextState('personas'), null);
    await t.rejects(store.live.commitStep({ ...step, state: first, serves: false }), { code: 'live_moved' });
    while (await store.live.clearOver('personas', 1));
    t.same(
      (await store.live.allStates()).map(({ state }) => state),
      [next],
    );
    for (const state of [first, abandoned]) t.same(await store.live.rowsOfIds(state, ['u:ann', 'u:bob']), []);
    t.equal((await store.live.rowsOfIds(next, ['u:cleo'])).length, 1);
  },
};
