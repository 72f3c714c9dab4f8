import t from 'tap';
import { forgetIn } from '../../jobs/live/forget.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { LiveRow } from '../../src/store/live.ts';

const row = (raw: string, person: string, links: readonly unknown[] = []): LiveRow => {
  return { raw, person, due: null, oldest: null, kept: '{}', links: JSON.stringify(links) };
};

/** Rows that are written and rows that are dropped once a user is forgotten, and if a rebuild was asked for before. */
async function forgotten(users: readonly string[], anonymous: readonly string[], rows: readonly LiveRow[]) {
  let done = { left: {} as Record<string, number | null>, gone: [] as readonly string[], isRenewed: false };
  let isRenewed = false;
  const several = rows.filter(({ links }) => JSON.parse(links).length > 1);
  await forgetIn(
    {
      allStates: async () => [],
      rowsOfIds: async (_state, raws) => rows.filter(({ raw }) => raws.includes(raw)),
      rowsOfPersons: async (_state, persons) => rows.filter(({ person }) => persons.includes(person ?? '')),
      renewStates: async () => {
        isRenewed = true;
      },
      sharedRows: async (_state, after) => several.filter(({ raw }) => raw > after),
      rewriteRows: async (_state, _known, left, gone) => {
        done = { left: Object.fromEntries(left.map(({ raw, due }) => [raw, due])), gone, isRenewed };
      },
    },
    1,
    { users, anonymous },
  );
  return done;
}

t.test('leaves people alone who shared a device with a deleted user, but for the link', async (t) => {
  const shared = row('a:tablet', 'ann', [
    ['ann', [1, 1, 'm1']],
    ['gone', [2, 2, 'm2']],
  ]);
  const rows = [row('u:ann', 'ann'), row('u:anna', 'ann', [['ann', [3, 3, 'm3']]]), row('u:gone', 'gone'), shared];
  t.same((await forgotten(['gone'], [], rows)).left, { 'a:tablet': null });
  t.match(
    await forgotten(['gone', 'tablet'], ['tablet'], rows),
    { left: {}, isRenewed: false },
    'a device of the user',
  );
});

t.test('keeps nothing of a deleted user who only used a device', async (t) => {
  const { left, gone } = await forgotten(['gone'], ['phone'], [row('a:phone', 'gone', [['gone', [1, 1, 'm1']]])]);
  t.same(left, {});
  t.same(gone, ['a:phone']);
});

t.test('takes what a step has changed in the meantime', async (t) => {
  const before = row('u:ann', 'ann', [['gone', [1, 1, 'm1']]]);
  const after = { ...before, kept: '{"seen":2}' };
  const written: (readonly LiveRow[])[] = [];
  await forgetIn(
    {
      allStates: async () => [],
      rowsOfIds: async () => [row('u:gone', 'ann')],
      rowsOfPersons: async () => [written.length === 1 ? before : after],
      renewStates: async () => {},
      sharedRows: async () => [],
      rewriteRows: async (_state, known, left) => {
        written.push(left);
        if (known[0] === before) throw new RollcallError('live_moved', 'A step has changed the row.');
      },
    },
    1,
    { users: ['gone'], anonymous: [] },
  );
  const kept = { ...before, due: 0, links: '[]' };
  t.same(written, [[], [kept], [{ ...kept, kept: '{"seen":2}' }]], 'after whatever step was under way');
});

t.test('checks at once who loses a former id', async (t) => {
  const former = row('u:old', 'ann', [['ann', [3, 3, 'm3']]]);
  const { left, gone, isRenewed } = await forgotten(
    ['old'],
    ['old'],
    [former, row('a:phone', 'ann', [['ann', [1, 1, 'm1']]])],
  );
  t.same([left, gone], [{ 'u:ann': 0, 'a:phone': null }, ['u:old']]);
  t.ok(isRenewed, 'since the alias may have been all that the log had of her');
});
