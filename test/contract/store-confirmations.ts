import type { Regulation } from '../../src/store/port.ts';
import type { Cases } from './store.ts';
import { START } from './store-fixture.ts';

const request = (id: string, createdAt: number): Regulation => ({
  ...{ id, type: 'DELETE_ONLY', status: 'INITIALIZED', sources: null, userIds: ['u'], subjects: 1, hashes: [] },
  ...{ told: null, partial: false, by: 'ops', notices: { crm: 1 }, createdAt, finishedAt: null },
});

export const confirmationCases: Cases = {
  'pages deletion requests newest first': async (t, store) => {
    for (const [id, at] of [
      ['a', 1],
      ['b', 3],
      ['c', 2],
      ['d', 3],
    ] as const)
      await store.saveRegulation(request(id, START + at));
    const found: string[] = [];
    for (let before: string | undefined; ; ) {
      const [next] = await store.regulations({ ...(before === undefined ? {} : { before }), limit: 1 });
      if (!next) break;
      t.match(next, { by: 'ops', notices: { crm: 1 } });
      found.push(next.id);
      before = next.id;
    }
    t.same(found, ['d', 'b', 'c', 'a']);
    t.equal((await store.regulations({ limit: 3 })).length, 3);
  },
  'counts each confirmation of a deletion once, and drops it with the request': async (t, store) => {
    const said = (regulation: string, destination: string, notice: string, at = START) => ({
      ...{ regulation, destination, notice, at },
    });
    await store.confirmNotices([]);
    await store.confirmNotices([
      said('r', 'crm', '0 shop'),
      said('r', 'crm', '1 shop', START + 5),
      said('r', 'ads', '0 shop'),
    ]);
    await store.confirmNotices([said('r', 'crm', '0 shop', START + 9), said('other', 'crm', '0 shop')]);
    t.same(await store.confirmed(['r', 'nothing']), [
      { regulation: 'r', destination: 'ads', notices: 1, at: START },
      { regulation: 'r', destination: 'crm', notices: 2, at: START + 5 },
    ]);
    t.same(await store.confirmed([]), []);
    await store.saveRegulation({ ...request('r', START), status: 'FINISHED', finishedAt: START });
    t.equal(await store.pruneRecords(START, START + 1, 10), 1);
    t.same(
      (await store.confirmed(['r', 'other'])).map(({ regulation }) => regulation),
      ['other'],
    );
  },
};
