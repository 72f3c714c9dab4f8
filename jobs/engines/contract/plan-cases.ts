import assert from 'node:assert/strict';
import type { Staged, StageRequest } from '../port.ts';
import { type EngineCase, engineCase } from './case.ts';
import { request, settle, told } from './fixture.ts';

/** Cases about plans: rows, counts, reading and leftovers. */
export const planCases: readonly EngineCase[] = [
  engineCase(
    'the first plan has every user once, in order, and counts what it left out',
    async ({ engine, usersSql }) => {
      const sql = `${usersSql('b', 'a', 'b', null, '', '  ', 'B', "o'x", 'é', ' a')} -- the end;`;
      const staged = await engine.stage(request({ sql }));
      assert.partialDeepStrictEqual(staged, {
        before: 0,
        members: 6,
        entered: 6,
        exited: 0,
        invalid: 3,
        duplicates: 1,
        total: 6,
      });
      const batch = await engine.changes(staged.plan, 0, 100);
      assert.deepEqual(batch.userIds, [' a', 'B', 'a', 'b', "o'x", 'é'], 'by the bytes of the id');
      assert.deepEqual(batch.positions, [1, 2, 3, 4, 5, 6]);
      assert.deepEqual(await engine.staged(staged.plan), staged);
      assert.deepEqual(await engine.snapshot('club'), { version: 0, members: 0 }, 'staging moves nothing');
    },
  ),
  engineCase('a plan is read in parts, from any position', async ({ engine, usersSql }) => {
    const { plan } = await engine.stage(request({ sql: usersSql('a', 'b', 'c', 'd', 'e') }));
    assert.deepEqual((await engine.changes(plan, 0, 2)).userIds, ['a', 'b']);
    assert.deepEqual((await engine.changes(plan, 2, 2)).userIds, ['c', 'd']);
    assert.deepEqual((await engine.changes(plan, 4, 2)).userIds, ['e']);
    assert.deepEqual((await engine.changes(plan, 5, 2)).userIds, []);
    await engine.forget(['a', 'b', 'c']);
    await engine.scrub('plans');
    assert.deepEqual((await engine.changes(plan, 0, 2)).userIds, ['d', 'e'], 'past what was forgotten');
  }),
  engineCase('later plans have what changed, both ways', async ({ engine, usersSql }) => {
    await settle(engine, { sql: usersSql('a', 'b', 'c') });
    assert.deepEqual(await engine.snapshot('club'), { version: 1, members: 3 });
    const staged = await engine.stage(request({ toVersion: 2, sql: usersSql('d', 'c', 'c', 'b') }));
    assert.partialDeepStrictEqual(staged, {
      fromVersion: 1,
      before: 3,
      members: 3,
      entered: 1,
      exited: 1,
      duplicates: 1,
      total: 2,
    });
    assert.deepEqual(told(await engine.changes(staged.plan, 0, 10)), [
      ['a', false],
      ['d', true],
    ]);
    await engine.commit(staged.plan);
    await engine.commit(staged.plan);
    assert.deepEqual(await engine.snapshot('club'), { version: 2, members: 3 }, 'committed once, however often');
    const again = await engine.stage(request({ toVersion: 3, sql: usersSql('b', 'c', 'd') }));
    assert.partialDeepStrictEqual(again, { total: 0, entered: 0, exited: 0, members: 3 });
  }),
  engineCase('a plan can be committed as far as it was read', async ({ engine, usersSql }) => {
    await settle(engine, { sql: usersSql('a', 'b', 'c') });
    const { plan } = await engine.stage(request({ toVersion: 2, sql: usersSql('c', 'd', 'e') }));
    await engine.cut(plan, 3);
    assert.deepEqual((await engine.changes(plan, 0, 10)).userIds, ['a', 'b', 'd']);
    await engine.commit(plan);
    assert.deepEqual(await engine.snapshot('club'), { version: 2, members: 2 });
    const rest = await engine.stage(request({ toVersion: 3, sql: usersSql('c', 'd', 'e') }));
    assert.deepEqual(told(await engine.changes(rest.plan, 0, 10)), [['e', true]]);
  }),
  engineCase('an empty result makes everybody leave', async ({ engine, usersSql }) => {
    await settle(engine, { sql: usersSql('a', 'b') });
    const staged = await engine.stage(request({ toVersion: 2, sql: usersSql() }));
    assert.partialDeepStrictEqual(staged, { members: 0, exited: 2, entered: 0, invalid: 0, duplicates: 0 });
    await engine.commit(staged.plan);
    assert.deepEqual(await engine.snapshot('club'), { version: 2, members: 0 });
  }),
  engineCase('a preview says the same as a plan and leaves nothing', async ({ engine, reopen, usersSql }) => {
    await settle(engine, { sql: usersSql('a', 'b', 'c') });
    const reader = await reopen({ readOnly: true });
    const preview = await reader.preview(request({ toVersion: 2, sql: usersSql('b', 'd', 'e', 'f') }), 2);
    assert.partialDeepStrictEqual(preview, { entered: 3, exited: 2, members: 4, before: 3 });
    assert.deepEqual(told(preview.sample), [
      ['a', false],
      ['c', false],
      ['d', true],
      ['e', true],
    ]);
    assert.equal(await reader.staged(preview.plan), null);
    assert.deepEqual(await reader.snapshot('club'), { version: 1, members: 3 });
  }),
  engineCase('the rows of a preview are those of the plan, whatever is computed', async ({ engine }) => {
    const trait = { key: 'score', kind: 'trait' } as const;
    const scores = (...sql: string[]) => sql.map((row) => `select ${row}`).join(' union all ');
    await settle(engine, { ...trait, sql: scores(`'a' as user_id, 1 as score`, `'b', 2`) });
    const next = scores(`'b' as user_id, 3 as score`, `'c', 4`);
    for (const action of ['sync', 'resync', 'backfill', 'retire'] as const) {
      const asked = request({ ...trait, action, toVersion: 2, sql: next });
      const { sample } = await engine.preview(asked, 10);
      const { plan } = await engine.stage(asked);
      const rows = await engine.changes(plan, 0, 10);
      assert.deepEqual(
        [sample.userIds, sample.present, told(sample)],
        [rows.userIds, rows.present, told(rows)],
        action,
      );
    }
  }),
  engineCase(
    'columns of an audience go with its changes, and are kept with its members',
    async ({ engine, spelling, leavesOut }) => {
      if (leavesOut.includes('columns')) return;
      const quoted = (value: string) => spelling.text(`'${value}'`);
      const rows = (...users: readonly (readonly [string, string, string | null])[]) =>
        users
          .map(([id, mail, plan]) => {
            const text = plan === null ? `nullif('', '')` : quoted(plan);
            return `select ${quoted(id)} as user_id, ${quoted(mail)} as email, ${text} as plan, 1 as score`;
          })
          .join(' union all ');
      const columns = { names: ['email', 'plan'], areSent: false };
      const ask = (toVersion: number, sql: string, changes: Partial<StageRequest> = {}) =>
        engine.stage(request({ toVersion, with: columns, sql, ...changes }));
      const commit = async (staged: Staged) => {
        await engine.commit(staged.plan);
        await engine.discard(staged.plan);
      };
      const first = await ask(1, rows(['a', 'a@x', 'pro'], ['b', 'b@x', null], ['c', 'c@x', null], ['c', 'c@x', null]));
      assert.partialDeepStrictEqual(first, { entered: 3, total: 3, duplicates: 1, columns: columns.names });
      assert.deepEqual(first.unnamed, ['score']);
      assert.deepEqual(told(await engine.changes(first.plan, 0, 10))[0], ['a', { email: 'a@x', plan: 'pro' }]);
      await commit(first);

      const second = await ask(2, rows(['a', 'a@y', 'pro'], ['b', 'b@x', null], ['d', 'd@x', null]));
      assert.partialDeepStrictEqual(second, { entered: 1, exited: 1, changed: 0, silent: 1, total: 2, members: 3 });
      const batch = await engine.changes(second.plan, 0, 10);
      assert.deepEqual(
        [batch.userIds, batch.present],
        [
          ['c', 'd'],
          [false, true],
        ],
        'no message for a',
      );
      assert.deepEqual(told(batch)[0], ['c', { email: 'c@x', plan: null }], 'who leaves has the last known ones');
      await commit(second);
      const columnsNow = async (user: string) =>
        JSON.parse((await engine.lookup('club', [user])).get(user)?.value ?? '{}');
      assert.deepEqual(await columnsNow('a'), { email: 'a@y', plan: 'pro' }, 'kept without a message');
      assert.equal((await engine.history('club', 'a')).length, 1);

      const sent = { with: { ...columns, areSent: true } };
      const third = await ask(3, rows(['a', 'a@z', 'pro'], ['b', 'b@x', null], ['d', 'd@x', null]), sent);
      assert.partialDeepStrictEqual(third, { entered: 0, exited: 0, changed: 1, total: 1 });
      assert.deepEqual(told(await engine.changes(third.plan, 0, 10)), [['a', { email: 'a@z', plan: 'pro' }]]);
      const { sample } = await engine.preview(
        request({ toVersion: 3, with: columns, sql: rows(['a', 'q', 'q'], ['b', 'b@x', null]) }),
        10,
      );
      assert.deepEqual(sample.userIds, ['d'], 'nor is one shown in a preview');
      await commit(third);

      const backfill = await ask(3, '', { action: 'backfill' });
      assert.deepEqual(told(await engine.changes(backfill.plan, 0, 10))[0], ['a', { email: 'a@z', plan: 'pro' }]);
      await engine.discard(backfill.plan);
      const retire = await ask(4, '', { action: 'retire' });
      const gone = await engine.changes(retire.plan, 0, 10);
      assert.deepEqual(
        [gone.present, told(gone)[0]],
        [
          [false, false, false],
          ['a', { email: 'a@z', plan: 'pro' }],
        ],
      );
      await engine.discard(retire.plan);

      const plain = await engine.stage(
        request({ toVersion: 4, sql: rows(['a', 'q', 'q'], ['b', 'q', 'q'], ['d', 'q', 'q']) }),
      );
      assert.partialDeepStrictEqual(plain, { total: 0, changed: 0, columns: [] }, 'columns that are named no more');
      await engine.discard(plain.plan);
      const now = rows(['a', 'a@z', 'pro'], ['b', 'b@x', null], ['d', 'd@x', null]);
      const none = await ask(4, now, { with: { names: [], areSent: false } });
      assert.partialDeepStrictEqual(none, { total: 0, silent: 3, columns: [] }, 'they can be taken out');
      await commit(none);
      assert.equal((await engine.lookup('club', ['a'])).get('a')?.value, null);
      const again = await ask(5, now, sent);
      assert.partialDeepStrictEqual(again, { total: 3, changed: 3 }, 'and are new to all then');
      await commit(again);
      await engine.forget(['a']);
      assert.equal((await engine.lookup('club', ['a'])).size, 0);
      assert.deepEqual(await engine.history('club', 'a'), []);
    },
  ),
  engineCase(
    'of several rows of a member the greatest value counts, also if one has the known value',
    async ({ engine, spelling, leavesOut }) => {
      const rows = (...users: readonly (readonly [string, number | null])[]) =>
        users
          .map(([id, n]) => `select ${spelling.text(`'${id}'`)} as user_id, ${n ?? 'nullif(1, 1)'} as n`)
          .join(' union all ');
      const first = rows(['a', 5], ['b', 5], ['c', 5], ['d', 5], ['e', 5], ['f', null]);
      const later = [
        ['a', 5],
        ['a', 3],
        ['b', 5],
        ['b', 7],
        ['c', 3],
        ['c', 4],
        ['d', null],
        ['d', 5],
        ['e', null],
      ] as const;
      const second = rows(...later, ['f', null], ['g', 1], ['g', 2], ['h', null]);
      const trait = { key: 'n', kind: 'trait', toVersion: 2, sql: second } as const;
      await settle(engine, { ...trait, toVersion: 1, sql: first });
      const staged = await engine.stage(request(trait));
      const counts = { entered: 1, exited: 1, changed: 2, invalid: 0, members: 5, duplicates: 5, total: 4 };
      assert.partialDeepStrictEqual(staged, counts);
      const changed = [
        ['b', { n: 7 }],
        ['c', { n: 4 }],
        ['e', false],
        ['g', { n: 2 }],
      ];
      assert.deepEqual(told(await engine.changes(staged.plan, 0, 10)), changed);
      await engine.discard(staged.plan);
      assert.partialDeepStrictEqual(await engine.stage(request({ ...trait, action: 'resync' })), {
        ...counts,
        total: 6,
      });

      if (leavesOut.includes('columns')) return;
      const columns = { with: { names: ['n'], areSent: true } };
      await settle(engine, { ...columns, sql: first });
      const members = await engine.stage(request({ ...columns, toVersion: 2, sql: second }));
      assert.partialDeepStrictEqual(members, {
        entered: 2,
        exited: 0,
        changed: 3,
        members: 8,
        duplicates: 5,
        total: 5,
      });
      assert.deepEqual(told(await engine.changes(members.plan, 0, 10)), [
        ['b', { n: 7 }],
        ['c', { n: 4 }],
        ['e', true],
        ['g', { n: 2 }],
        ['h', true],
      ]);
    },
  ),
  engineCase(
    'columns with the same values under other names, or of other types, are changed',
    async ({ engine, spelling, leavesOut }) => {
      if (leavesOut.includes('columns')) return;
      const [a, one, two] = ['a', '1', '2'].map((text) => spelling.text(`'${text}'`));
      const ask = (names: readonly string[], x: unknown, y: unknown) =>
        ({ with: { names, areSent: true }, sql: `select ${a} as user_id, ${x} as x, ${y} as y` }) as const;
      await settle(engine, ask(['x', 'y'], one, two));
      const swapped = ask(['y', 'x'], two, one);
      const { plan, changed } = await engine.stage(request({ toVersion: 2, ...swapped }));
      assert.equal(changed, 1);
      assert.deepEqual(told(await engine.changes(plan, 0, 10)), [['a', { x: '2', y: '1' }]]);
      await engine.discard(plan);
      for (const [x, is] of [
        [one, 0],
        ['1', 1],
      ] as const) {
        const typed = await engine.stage(request({ toVersion: 2, ...ask(['x', 'y'], x, two) }));
        assert.equal(typed.changed, is, x);
        await engine.discard(typed.plan);
      }
    },
  ),
  engineCase(
    'a column that the SQL does not return fails the run, and its type is described',
    async ({ engine, spelling, leavesOut }) => {
      if (leavesOut.includes('columns')) return;
      const sql = `select ${spelling.text(`'a'`)} as user_id, ${spelling.text(`'a@x'`)} as email, 1 as score`;
      const of = (...names: string[]) => ({ with: { names, areSent: false } });
      await assert.rejects(engine.stage(request({ sql, ...of('email', 'plan') })), { code: 'column_missing' });
      assert.deepEqual(await engine.describe(request({ sql, ...of('email', 'score') })), [
        { key: 'email', type: spelling.hasTypes ? 'string' : 'unknown', isList: false },
        { key: 'score', type: spelling.hasTypes ? 'number' : 'unknown', isList: false },
      ]);
    },
  ),
  engineCase('leftovers of runs before this lease are removed, later plans are not', async ({ engine, usersSql }) => {
    const old = await engine.stage(request({ sql: usersSql('a'), leasedAt: 1 }));
    const other = await engine.stage(request({ key: 'other', sql: usersSql('a'), leasedAt: 1 }));
    const ours = await engine.stage(request({ sql: usersSql('a'), leasedAt: 5 }));
    const stalled = await engine.stage(request({ sql: usersSql('a'), leasedAt: 3 }));
    assert.equal(await engine.staged(old.plan), null);
    assert.ok(await engine.staged(other.plan));
    assert.ok(await engine.staged(ours.plan));
    await engine.discard(ours.plan);
    await engine.discard(ours.plan);
    assert.equal(await engine.staged(ours.plan), null);
    assert.ok(await engine.staged(stalled.plan));
  }),
  engineCase('a plan made from an older snapshot is not committed', async ({ engine, usersSql }) => {
    const late = await engine.stage(request({ sql: usersSql('a'), leasedAt: 1_000_000 }));
    await settle(engine, { sql: usersSql('b') });
    await settle(engine, { sql: usersSql('b', 'c') });
    await assert.rejects(engine.commit(late.plan), { code: 'snapshot_moved' });
    assert.deepEqual(await engine.snapshot('club'), { version: 2, members: 2 });
    await assert.rejects(engine.commit('never-staged'), { code: 'snapshot_lost' });
  }),
];
