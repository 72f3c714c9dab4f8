import assert from 'node:assert/strict';
import type { Engine, RunChange } from '../port.ts';
import { type EngineCase, engineCase } from './case.ts';
import { request, settle, told } from './fixture.ts';

async function changesAt(engine: Engine, version: number, key = 'club'): Promise<readonly RunChange[]> {
  const batches: RunChange[] = [];
  for await (const batch of engine.runChanges(key, version)) batches.push(...batch);
  return batches.toSorted((a, b) => (a.userId < b.userId ? -1 : 1));
}

async function membersOf(engine: Engine, key: string): Promise<readonly string[]> {
  const users: string[] = [];
  for await (const { userIds, values, since } of engine.members(key)) {
    assert.equal(userIds.length, values.length);
    assert.equal(userIds.length, since.length);
    users.push(...userIds);
  }
  return users.toSorted();
}

/** Reads all pages, one after the other. */
async function memberPages(engine: Engine, key: string, limit: number): Promise<readonly string[]> {
  const all: string[] = [];
  for (let after = ''; ; after = all.at(-1) ?? '') {
    const { userIds, values, since } = await engine.memberPage(key, after, limit);
    assert.ok(userIds.length <= limit);
    assert.deepEqual([values.length, since.length], [userIds.length, userIds.length]);
    all.push(...userIds);
    if (userIds.length < limit) return all;
  }
}

async function changePages(engine: Engine, version: number, limit: number): Promise<readonly string[]> {
  const all: RunChange[] = [];
  for (let after = ''; ; after = all.at(-1)?.userId ?? '') {
    const page = await engine.runChangePage('club', version, after, limit);
    assert.ok(page.length <= limit);
    all.push(...page);
    if (page.length < limit) return all.map(({ userId, change }) => `${userId} ${change}`);
  }
}

const scores = (...rows: readonly (readonly [string, number])[]) =>
  rows.map(([user, score]) => `select '${user}' as user_id, ${score} as score`).join(' union all ');

/** Many snapshots say at once what each says for itself. */
async function agreesEverywhere(engine: Engine, keys: readonly string[], users: readonly string[]): Promise<void> {
  for (const user of users) {
    const all = await engine.everywhere?.(keys, user);
    for (const key of all ? keys : []) {
      const standing = (await engine.lookup(key, [user])).get(user);
      const alone = { version: (await engine.snapshot(key)).version, standing, past: await engine.history(key, user) };
      assert.deepEqual(all?.get(key), alone, `${user} in ${key}`);
    }
  }
}

/** Cases about the history of finished runs. */
export const historyCases: readonly EngineCase[] = [
  engineCase('members are listed, a batch at a time', async ({ engine, reopen, spelling }) => {
    assert.deepEqual(await membersOf(engine, 'club'), []);
    await settle(engine, { sql: `select n as user_id from (${spelling.series(12_345)}) as numbers` });
    let [users, batches] = [0, 0];
    for await (const { userIds, since } of engine.members('club')) {
      users += userIds.length;
      batches += 1;
      assert.ok(since.every((version) => version === 1));
    }
    assert.equal(users, 12_345);
    assert.ok(batches > 1);
    for await (const { userIds } of engine.members('club')) if (userIds.length > 0) break;
    assert.deepEqual(
      await engine.snapshot('club'),
      { version: 1, members: 12_345 },
      'and who stops early harms nothing',
    );
    await engine.close();
    assert.equal((await membersOf(await reopen({ readOnly: true }), 'club')).length, 12_345);
  }),
  engineCase(
    'members and changes come in pages, in the order of the ids as bytes',
    async ({ engine, reopen, usersSql }) => {
      const long = 'x'.repeat(999);
      const begin = ['Zoe', 'a', 'b', "o'x", `${long}1`, `${long}2`, 'zoe', '~', 'é', '\u{1f600}'];
      assert.deepEqual(await engine.memberPage('club', '', 10), { userIds: [], values: [], since: [] });
      assert.deepEqual(await engine.runChangePage('club', 1, '', 10), []);
      await settle(engine, { sql: usersSql(...begin) });
      assert.deepEqual(await memberPages(engine, 'club', 3), begin, 'in pages');
      assert.deepEqual(await memberPages(engine, 'club', begin.length), begin, 'and in one');
      await settle(engine, { sql: usersSql('b', 'c', ...begin.slice(4)) });
      const now = ['b', 'c', ...begin.slice(4)];
      assert.deepEqual(await memberPages(engine, 'club', 2), now);
      const { since } = await engine.memberPage('club', 'a', 2);
      assert.deepEqual(since, [1, 2]);
      const first = begin.map((user) => `${user} entered`);
      assert.deepEqual(await changePages(engine, 1, 3), first, 'those too who have left since');
      assert.deepEqual(await changePages(engine, 2, 1), ['Zoe exited', 'a exited', 'c entered', "o'x exited"]);
      assert.deepEqual(await engine.runChangePage('club', 2, "o'x", 5), []);
      await engine.close();
      const reader = await reopen({ readOnly: true });
      assert.deepEqual(await memberPages(reader, 'club', 4), now);
      assert.deepEqual(await changePages(reader, 1, 4), first);
    },
  ),
  engineCase(
    'who entered and left by each version is remembered, after a retirement and in the next life too',
    async ({ engine, usersSql }) => {
      await settle(engine, { sql: usersSql('a', 'b') });
      await settle(engine, { sql: usersSql('b', 'c') });
      await settle(engine, { sql: usersSql('a', 'b') });
      assert.deepEqual(await changesAt(engine, 1), [
        { userId: 'a', change: 'entered', value: null },
        { userId: 'b', change: 'entered', value: null },
      ]);
      assert.deepEqual(await changesAt(engine, 2), [
        { userId: 'a', change: 'exited', value: null },
        { userId: 'c', change: 'entered', value: null },
      ]);
      await settle(engine, { action: 'retire' });
      assert.deepEqual(
        (await changesAt(engine, 4)).map(({ userId, change }) => [userId, change]),
        [
          ['a', 'exited'],
          ['b', 'exited'],
        ],
      );
      assert.deepEqual(await engine.history('club', 'a'), [
        { value: null, since: 1, until: 2 },
        { value: null, since: 3, until: 4 },
      ]);
      assert.deepEqual(await engine.history('other', 'a'), []);
      await agreesEverywhere(engine, ['club', 'other'], ['a', 'b', 'c', "o'hara"]);
      await settle(engine, { sql: usersSql('a'), toVersion: 5 });
      assert.deepEqual(await changesAt(engine, 5), [{ userId: 'a', change: 'entered', value: null }]);
    },
  ),
  engineCase('values of traits are remembered, and a resync is no change', async ({ engine, usersSql }) => {
    const trait = { key: 'score', kind: 'trait' } as const;
    await settle(engine, { ...trait, sql: scores(['a', 1], ['b', 2]) });
    await settle(engine, { ...trait, sql: scores(['a', 3], ['b', 2]) });
    await settle(engine, { ...trait, action: 'resync', sql: scores(['a', 3], ['b', 2], ['c', 4]) });
    const [changed, ...others] = await changesAt(engine, 2, 'score');
    assert.deepEqual(others, []);
    assert.partialDeepStrictEqual(changed, { userId: 'a', change: 'changed' });
    assert.deepEqual(JSON.parse(changed?.value ?? ''), { score: 3 });
    assert.deepEqual(
      (await changesAt(engine, 3, 'score')).map(({ userId, change }) => [userId, change]),
      [['c', 'entered']],
    );
    const [past, ...none] = await engine.history('score', 'a');
    assert.deepEqual(none, []);
    assert.deepEqual([JSON.parse(past?.value ?? ''), past?.since, past?.until], [{ score: 1 }, 1, 2]);
    assert.equal((await engine.lookup('score', ['b'])).get('b')?.since, 1);
    assert.deepEqual(await engine.snapshot('score'), { version: 3, members: 3 });
    await settle(engine, { sql: usersSql('a') });
    await settle(engine, { sql: usersSql('b', "o'hara") });
    await agreesEverywhere(engine, ['score', 'club', 'none'], ['a', 'b', "o'hara", 'nobody']);
  }),
  engineCase(
    'who knows the membership of a past version lacks only the difference',
    async ({ engine, usersSql, leavesOut }) => {
      if (leavesOut.includes('differences')) return;
      await settle(engine, { sql: usersSql('a', 'b', 'c') });
      await settle(engine, { sql: usersSql('b', 'c', 'd', 'x') });
      await settle(engine, { sql: usersSql('b', 'd', 'e', 'a') });
      const lacking = async (changes: Parameters<typeof request>[0]) => {
        const staged = await engine.stage(request({ action: 'backfill', leavers: true, toVersion: 9, ...changes }));
        const rows = await engine.changes(staged.plan, 0, 100);
        assert.equal(staged.total, rows.positions.length);
        await engine.discard(staged.plan);
        return told(rows);
      };
      const known = { version: 1, upTo: 1 };
      assert.deepEqual(await lacking({ known }), [
        ['c', false],
        ['d', true],
        ['e', true],
      ]);
      assert.deepEqual(
        await lacking({ known: { version: 1, upTo: 2 } }),
        [
          ['a', true],
          ['c', false],
          ['d', true],
          ['e', true],
          ['x', false],
        ],
        'and whoever changed in a version of which it may have a part',
      );
      assert.deepEqual(await lacking({ known: { version: 3, upTo: 3 } }), []);
      assert.deepEqual(await lacking({ known, action: 'withdraw' }), [
        ['a', false],
        ['b', false],
        ['c', false],
      ]);
      assert.deepEqual(await lacking({ onlyLeavers: true }), [
        ['c', false],
        ['x', false],
      ]);
      const preview = await engine.preview(request({ sql: usersSql('a', 'f'), known }), 0);
      assert.equal(preview.total, 3, 'b and c leave, f enters');
      await settle(engine, { action: 'retire' });
      assert.deepEqual(await lacking({ known, action: 'withdraw' }), [
        ['a', false],
        ['b', false],
        ['c', false],
      ]);
    },
  ),
  engineCase('who knows past values lacks those that differ', async ({ engine, leavesOut }) => {
    if (leavesOut.includes('differences')) return;
    const trait = { key: 'score', kind: 'trait' } as const;
    await settle(engine, { ...trait, sql: scores(['a', 1], ['b', 2], ['c', 3]) });
    await settle(engine, { ...trait, sql: scores(['a', 5], ['b', 9], ['d', 4]) });
    await settle(engine, { ...trait, sql: scores(['a', 6], ['b', 2], ['d', 4]) });
    const known = { version: 1, upTo: 1 };
    const { plan } = await engine.stage(request({ ...trait, action: 'backfill', leavers: true, toVersion: 9, known }));
    assert.deepEqual(told(await engine.changes(plan, 0, 100)), [
      ['a', { score: 6 }],
      ['c', false],
      ['d', { score: 4 }],
    ]);
    const resync = await engine.stage(
      request({ ...trait, action: 'resync', toVersion: 4, sql: scores(['a', 6], ['b', 3], ['e', 1]) }),
    );
    assert.deepEqual([resync.entered, resync.exited, resync.changed], [1, 1, 1]);
    const rows = await engine.changes(resync.plan, 0, 100);
    const was = new Map(rows.userIds.map((user, row) => [user, rows.was[row]]));
    assert.deepEqual(
      ['a', 'b', 'c', 'd', 'e'].map((user) => was.get(user)),
      [true, true, false, true, false],
    );
  }),
  engineCase('what is remembered is forgotten with a user, and by time', async ({ engine, usersSql }) => {
    const staged = async (users: readonly string[], leasedAt: number) => {
      const { version } = await engine.snapshot('club');
      const { plan } = await engine.stage(request({ sql: usersSql(...users), toVersion: version + 1, leasedAt }));
      await engine.commit(plan);
      await engine.discard(plan);
    };
    await staged(['a', 'b', 'c'], 1_000);
    await staged(['b', 'c'], 2_000);
    await staged(['c'], 3_000);
    await engine.forget(['a']);
    assert.deepEqual(await engine.history('club', 'a'), []);
    await engine.prune(3_000);
    assert.deepEqual(await engine.history('club', 'b'), [{ value: null, since: 1, until: 3 }]);
    await engine.prune(3_001);
    assert.deepEqual(await engine.history('club', 'b'), []);
    await engine.scrub('all');
    assert.deepEqual(await engine.snapshot('club'), { version: 3, members: 1 });
  }),
];
