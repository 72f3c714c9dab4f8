import type { Cases } from './store.ts';
import { START } from './store-fixture.ts';

export const pauseCases: Cases = {
  'names who paused an audience first until it is resumed': async (t, store, fixture) => {
    t.same(await store.pausedAudiences(), []);
    await store.pauseAudience({ key: 'b', at: START, by: 'cli:ann' });
    await store.pauseAudience({ key: 'a', at: START + 5, by: 'ops' });
    await store.pauseAudience({ key: 'b', at: START + 9, by: 'ops' });
    const other = await fixture.open();
    t.same(await other.pausedAudiences(), [
      { key: 'a', at: START + 5, by: 'ops' },
      { key: 'b', at: START, by: 'cli:ann' },
    ]);
    await other.resumeAudience('b');
    await other.resumeAudience('nobody');
    t.match(await store.pausedAudiences(), [{ key: 'a' }]);
  },
};
