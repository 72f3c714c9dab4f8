import t from 'tap';
import { forgetKept } from '../../jobs/live/forget.ts';
import type { LiveRow } from '../../src/store/live.ts';

const row = (raw: string, person: string, links: readonly unknown[] = []): LiveRow => {
  return { raw, person, due: null, oldest: null, kept: '{}', links: JSON.stringify(links) };
};

t.test('those who shared a device with somebody who is deleted are looked at once, by no former id', async (t) => {
  const shared = row('a:tablet', 'ann', [
    ['ann', [1, 1, 'm1']],
    ['gone', [2, 2, 'm2']],
  ]);
  const rows = [row('u:ann', 'ann'), row('u:anna', 'ann', [['ann', [3, 3, 'm3']]]), row('u:gone', 'gone'), shared];
  let rewritten: readonly LiveRow[] = [];
  await forgetKept(
    {
      liveSources: async () => ['personas'],
      liveRows: async (_source, raws) => rows.filter(({ raw }) => raws.includes(raw)),
      liveRowsOf: async (_source, persons) => rows.filter(({ person }) => persons.includes(person ?? '')),
      liveShared: async (_source, after) => (after < shared.raw ? [shared] : []),
      rewriteLive: async (_source, left) => {
        rewritten = left;
      },
    },
    ['gone'],
  );
  t.same(Object.fromEntries(rewritten.map(({ raw, due }) => [raw, due])), { 'u:ann': 0, 'u:anna': null, 'a:tablet': null });
});
