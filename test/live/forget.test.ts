import t from 'tap';
import { forgetKept } from '../../jobs/live/forget.ts';
import type { LiveRow, LiveSource } from '../../src/store/live.ts';

const row = (raw: string, person: string, links: readonly unknown[] = []): LiveRow => {
  return { raw, person, due: null, oldest: null, kept: '{}', links: JSON.stringify(links) };
};

const state: LiveSource = {
  ...{ state: 1, source: 'personas', asked: '', position: '', at: 0, revision: 1 },
  ...{ isBuilding: false, isStale: false, isUnseen: false },
  ...{ done: 0, total: 0, ids: 0, due: 0 },
};

/** Rows that are written and rows that are dropped once a user is forgotten. */
async function forgotten(user: string, rows: readonly LiveRow[]) {
  let done = { left: {} as Record<string, number | null>, gone: [] as readonly string[] };
  const several = rows.filter(({ links }) => JSON.parse(links).length > 1);
  await forgetKept(
    {
      allStates: async () => [state],
      rowsOfIds: async (_state, raws) => rows.filter(({ raw }) => raws.includes(raw)),
      rowsOfPersons: async (_state, persons) => rows.filter(({ person }) => persons.includes(person ?? '')),
      sharedRows: async (_state, after) => several.filter(({ raw }) => raw > after),
      rewriteRows: async (_state, left, gone) => {
        done = { left: Object.fromEntries(left.map(({ raw, due }) => [raw, due])), gone };
      },
    },
    [user],
  );
  return done;
}

t.test('checks at once, under current ids, people who shared a device with a deleted user', async (t) => {
  const shared = row('a:tablet', 'ann', [
    ['ann', [1, 1, 'm1']],
    ['gone', [2, 2, 'm2']],
  ]);
  const rows = [row('u:ann', 'ann'), row('u:anna', 'ann', [['ann', [3, 3, 'm3']]]), row('u:gone', 'gone'), shared];
  t.same((await forgotten('gone', rows)).left, { 'u:ann': 0, 'u:anna': null, 'a:tablet': null });
});

t.test('keeps nothing of a deleted user who only used a device', async (t) => {
  const { left, gone } = await forgotten('gone', [row('a:phone', 'gone', [['gone', [1, 1, 'm1']]])]);
  t.same(left, {});
  t.same(gone, ['u:gone', 'a:phone']);
});
