import type { LiveRow } from '../../src/store/live.ts';
import type { Fence, Store } from '../../src/store/port.ts';
import type { Cases } from './store.ts';

const row = (raw: string, person: string | null, due: number | null = null, kept = '{"seen":1}'): LiveRow => {
  return { raw, person, due, oldest: 1, kept, links: '[]' };
};

async function led(store: Store): Promise<Fence> {
  const fence = await store.takeLease('live:personas', 60_000);
  if (fence === null) throw new Error('no lease');
  return fence;
}

export const liveCases: Cases = {
  'live state is built page by page, says how far it is, and counts what it keeps': async (t, store) => {
    const fence = await led(store);
    const { epoch } = await store.deletions(null);
    const page = { fence, source: 'personas', epoch, total: 3, changes: [] };
    await store.beginLive('personas', '[]', '7', fence);
    t.match(await store.liveSource('personas'), { isBuilding: true, done: 0, total: 0, position: '7' });
    await store.addLiveAudience('vips', 'personas', '', 'new', fence);
    const changes = [{ key: 'vips', user: 'ann', current: 'true' }];
    await store.fillLive({ ...page, rows: [row('u:ann', 'ann', 50), row('u:bob', 'bob')], changes, done: 2 });
    t.match(await store.liveSource('personas'), { isBuilding: true, done: 2, total: 3, ids: 2, due: 1 });
    await store.fillLive({ ...page, rows: [row('a:x', null)], done: 3 });
    await store.endLive('personas', 40, fence);
    t.match(await store.liveSource('personas'), { isBuilding: false, at: 40, ids: 3, due: 1 });
    t.same(await store.liveMembers(['ann', 'bob'], ['vips']), [
      { key: 'vips', user: 'ann', current: 'true', told: null, since: 0 },
    ]);
    await store.rewriteLive('personas', [row('u:bob', 'bob', 60)], ['u:ann']);
    t.match(await store.liveSource('personas'), { ids: 2, due: 1 });
    t.same(await store.liveStrays('personas', 'vips', '', 10), ['ann'], 'a member of whom nothing is kept');
    await store.rewriteLive('personas', [row('u:ann', 'ann', null, '{}')], []);
    t.same(await store.liveStrays('personas', 'vips', '', 10), ['ann'], 'to be there is not enough');
    t.same(await store.livePersons('personas', '', 10), ['bob']);
    await store.rewriteLive('personas', [row('u:ann', 'ann')], []);
    t.same(await store.liveStrays('personas', 'vips', '', 10), []);
  },

  'a build ends only if nobody changed meanwhile what it was made of': async (t, store) => {
    const fence = await led(store);
    await store.beginLive('personas', '[]', '7', fence);
    await store.rebuildLive();
    await t.rejects(store.endLive('personas', 40, fence), { code: 'live_moved' });
    t.match(await store.liveSource('personas'), { isBuilding: true });
    await store.beginLive('personas', '[]', '9', fence);
    await store.endLive('personas', 40, fence);
    t.match(await store.liveSource('personas'), { isBuilding: false, position: '9' });
  },

  'a page of a build that was computed before a deletion began is not written': async (t, store) => {
    const fence = await led(store);
    const { epoch } = await store.deletions(null);
    await store.beginLive('personas', '[]', '7', fence);
    const page = { fence, source: 'personas', rows: [row('u:ann', 'ann')], changes: [], done: 1, total: 1 };
    await t.rejects(store.fillLive({ ...page, epoch: epoch - 1 }), { code: 'epoch_moved' });
    t.same(await store.liveRows('personas', ['u:ann']), []);
  },
};
