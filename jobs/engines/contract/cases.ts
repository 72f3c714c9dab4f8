import assert from 'node:assert/strict';
import { type EngineFixture, request, settle, told, usersSql } from './fixture.ts';

/** One thing that every engine has to do; definitions use plain SQL only. */
export interface EngineCase {
  /** A sentence for the test. */
  readonly name: string;
  /**
   * Rejects with an `AssertionError` when the engine does not do it; works in any test runner.
   *
   * @param open - makes a new engine over an empty database; cleaning up is the caller's
   */
  run(open: () => Promise<EngineFixture>): Promise<void>;
}

export const engineCases: readonly EngineCase[] = [
  {
    name: 'the first plan has every user once, in order, and counts what it left out',
    async run(open) {
      const { engine } = await open();
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
  },

  {
    name: 'a plan is read in parts, from any position',
    async run(open) {
      const { engine } = await open();
      const { plan } = await engine.stage(request({ sql: usersSql('a', 'b', 'c', 'd', 'e') }));
      assert.deepEqual((await engine.changes(plan, 0, 2)).userIds, ['a', 'b']);
      assert.deepEqual((await engine.changes(plan, 2, 2)).userIds, ['c', 'd']);
      assert.deepEqual((await engine.changes(plan, 4, 2)).userIds, ['e']);
      assert.deepEqual((await engine.changes(plan, 5, 2)).userIds, []);
      await engine.forget(['a', 'b', 'c']);
      assert.deepEqual((await engine.changes(plan, 0, 2)).userIds, ['d', 'e'], 'past what was forgotten');
    },
  },

  {
    name: 'later plans have what changed, both ways',
    async run(open) {
      const { engine } = await open();
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
    },
  },

  {
    name: 'an empty result makes everybody leave',
    async run(open) {
      const { engine } = await open();
      await settle(engine, { sql: usersSql('a', 'b') });
      const staged = await engine.stage(request({ toVersion: 2, sql: usersSql() }));
      assert.partialDeepStrictEqual(staged, { members: 0, exited: 2, entered: 0, invalid: 0, duplicates: 0 });
      await engine.commit(staged.plan);
      assert.deepEqual(await engine.snapshot('club'), { version: 2, members: 0 });
    },
  },

  {
    name: '$now is the time of the run, as a UTC timestamp',
    async run(open) {
      const { engine } = await open();
      const sql = `select 'u' as user_id where $now = timestamp '1997-06-01 10:00:00' -- $now`;
      assert.partialDeepStrictEqual(await engine.stage(request({ sql, asOf: Date.parse('1997-06-01T10:00:00Z') })), {
        total: 1,
      });
      assert.partialDeepStrictEqual(
        await engine.stage(request({ sql, asOf: Date.parse('1997-06-01T10:00:00.001Z') })),
        { total: 0 },
      );
      const text = `select '$now' as user_id`;
      const { plan } = await engine.stage(request({ sql: text }));
      assert.deepEqual((await engine.changes(plan, 0, 1)).userIds, ['$now'], 'but not within a string');
    },
  },

  {
    name: 'ids of other types are told as text',
    async run(open) {
      const { engine } = await open();
      await settle(engine, { sql: 'select 1 as user_id union all select 20' });
      const staged = await engine.stage(request({ toVersion: 2, sql: usersSql('1', '20') }));
      assert.partialDeepStrictEqual(staged, { total: 0, members: 2 }, 'a number and its text are one user');
    },
  },

  {
    name: 'traits: values by type, only when changed, null once gone',
    async run(open) {
      const { engine } = await open();
      const trait = (sql: string, toVersion = 1) => request({ key: 'profile', kind: 'trait', sql, toVersion });
      const first = await engine.stage(
        trait(`select 'a' as user_id, 12.50 as amount, true as vip, date '1997-01-01' as since,
               timestamp '1997-01-01 10:00:00' as seen, 'x"y' as note, cast(0.1 as double precision) + 0.2 as ratio
             union all select 'b', null, null, null, null, null, cast('nan' as double precision)
             union all select 'c', null, null, null, null, 'only', null`),
      );
      assert.partialDeepStrictEqual(first, {
        members: 2,
        entered: 2,
        columns: ['amount', 'vip', 'since', 'seen', 'note', 'ratio'],
      });
      const all = told(await engine.changes(first.plan, 0, 10));
      assert.deepEqual(all[0]?.[1], {
        amount: 12.5,
        vip: true,
        since: '1997-01-01',
        seen: '1997-01-01T10:00:00.000Z',
        note: 'x"y',
        ratio: 0.3,
      });
      assert.deepEqual(all[1], ['c', { amount: null, vip: null, since: null, seen: null, note: 'only', ratio: null }]);
      const rows = (...list: string[]) => list.map((row) => `select ${row}`).join(' union all ');
      const plain = (sql: string, toVersion: number) => request({ key: 'n', kind: 'trait', sql, toVersion });
      const one = await engine.stage(plain(rows(`'a' as user_id, 1 as value`, `'b', 2`, `'b', 3`, `'c', null`), 1));
      assert.partialDeepStrictEqual(one, { members: 2, duplicates: 1, columns: ['n'] });
      assert.deepEqual(told(await engine.changes(one.plan, 0, 10)), [
        ['a', { n: 1 }],
        ['b', { n: 3 }],
      ]);
      await engine.commit(one.plan);
      const two = await engine.stage(plain(rows(`'a' as user_id, 1 as value`, `'b', 4`, `'d', 5`), 2));
      assert.partialDeepStrictEqual(two, { members: 3, entered: 1, exited: 0, changed: 1 });
      await engine.commit(two.plan);
      assert.deepEqual(await engine.snapshot('n'), { version: 2, members: 3 });
      const three = await engine.stage(plain(rows(`'b' as user_id, 4 as value`), 3));
      assert.partialDeepStrictEqual(three, { exited: 2, changed: 0 });
      assert.deepEqual(told(await engine.changes(three.plan, 0, 10)), [
        ['a', false],
        ['d', false],
      ]);
    },
  },

  {
    name: 'a resync has everybody, and everybody who ever left',
    async run(open) {
      const { engine } = await open();
      await settle(engine, { sql: usersSql('a', 'b', 'c') });
      await settle(engine, { sql: usersSql('b', 'c') });
      const staged = await engine.stage(request({ action: 'resync', toVersion: 3, sql: usersSql('c', 'd') }));
      assert.partialDeepStrictEqual(staged, { entered: 1, exited: 1, members: 2, total: 4 });
      assert.deepEqual(told(await engine.changes(staged.plan, 0, 10)), [
        ['a', false],
        ['b', false],
        ['c', true],
        ['d', true],
      ]);
      await engine.commit(staged.plan);
      assert.deepEqual(await engine.snapshot('club'), { version: 3, members: 2 });
    },
  },

  {
    name: 'a backfill is the snapshot as it stands, with leavers where asked for',
    async run(open) {
      const { engine } = await open();
      await settle(engine, { sql: usersSql('a', 'b') });
      await settle(engine, { sql: usersSql('b') });
      const whole = await engine.stage(request({ action: 'backfill', toVersion: 2 }));
      assert.deepEqual(told(await engine.changes(whole.plan, 0, 10)), [['b', true]]);
      const known = await engine.stage(request({ action: 'backfill', toVersion: 2, leavers: true }));
      assert.partialDeepStrictEqual(known, { total: 2, members: 1 });
      await engine.commit(known.plan);
      assert.deepEqual(await engine.snapshot('club'), { version: 2, members: 1 }, 'the snapshot stays');
    },
  },

  {
    name: 'retire tells everybody that it is over, and leaves nothing',
    async run(open) {
      const { engine } = await open();
      await settle(engine, { sql: usersSql('a', 'b') });
      const staged = await engine.stage(request({ action: 'retire', toVersion: 2 }));
      assert.deepEqual(told(await engine.changes(staged.plan, 0, 10)), [
        ['a', false],
        ['b', false],
      ]);
      await engine.commit(staged.plan);
      await engine.commit(staged.plan);
      assert.deepEqual(await engine.snapshot('club'), { version: 0, members: 0 });
      await engine.discard(staged.plan);
      await settle(engine, { sql: usersSql('a') });
      assert.deepEqual(await engine.snapshot('club'), { version: 1, members: 1 }, 'and it can begin anew');
    },
  },

  {
    name: 'a plan made from an older snapshot is not committed',
    async run(open) {
      const { engine } = await open();
      const late = await engine.stage(request({ sql: usersSql('a'), leasedAt: 1_000_000 }));
      await settle(engine, { sql: usersSql('b') });
      await settle(engine, { sql: usersSql('b', 'c') });
      await assert.rejects(engine.commit(late.plan), { code: 'snapshot_moved' });
      assert.deepEqual(await engine.snapshot('club'), { version: 2, members: 2 });
      await assert.rejects(engine.commit('never-staged'), { code: 'snapshot_lost' });
    },
  },

  {
    name: 'leftovers of runs before this lease are removed, later plans are not',
    async run(open) {
      const { engine } = await open();
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
    },
  },

  {
    name: 'a look-up says who is in since when, and what a plan makes of it',
    async run(open) {
      const { engine } = await open();
      await settle(engine, { sql: usersSql('a', 'b') });
      await settle(engine, { sql: usersSql('b', 'c') });
      assert.deepEqual(
        await engine.lookup('club', ['a', 'b', 'c', 'x']),
        new Map([
          ['a', { present: false, value: null, since: 2 }],
          ['b', { present: true, value: null, since: 1 }],
          ['c', { present: true, value: null, since: 2 }],
        ]),
      );
      const { plan } = await engine.stage(request({ toVersion: 3, sql: usersSql('a', 'c') }));
      assert.partialDeepStrictEqual((await engine.lookup('club', ['a', 'b'], plan)).get('b'), {
        present: false,
        since: 3,
      });
      assert.deepEqual(await engine.lookup('nothing', ['a']), new Map());
    },
  },

  {
    name: 'a forgotten user is nowhere',
    async run(open) {
      const { engine } = await open();
      await settle(engine, { sql: usersSql('a', "o'x", 'c') });
      await settle(engine, { sql: usersSql("o'x", 'c') });
      const { plan } = await engine.stage(request({ toVersion: 3, sql: usersSql('c', 'd') }));
      await engine.forget(['a', "o'x", 'd']);
      assert.deepEqual((await engine.changes(plan, 0, 10)).userIds, []);
      await engine.commit(plan);
      assert.deepEqual(await engine.snapshot('club'), { version: 3, members: 1 });
      assert.deepEqual([...(await engine.lookup('club', ['a', "o'x", 'c', 'd'])).keys()], ['c']);
    },
  },

  {
    name: 'a preview says the same as a plan and leaves nothing',
    async run(open) {
      const { engine, reopen } = await open();
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
    },
  },

  {
    name: 'all of it is there after the engine was closed',
    async run(open) {
      const { engine, reopen } = await open();
      await settle(engine, { sql: usersSql('a') });
      const { plan } = await engine.stage(request({ toVersion: 2, sql: usersSql('b') }));
      await engine.close();
      const again = await reopen();
      assert.deepEqual(told(await again.changes(plan, 0, 10)), [
        ['a', false],
        ['b', true],
      ]);
      await again.commit(plan);
      assert.deepEqual(await again.snapshot('club'), { version: 2, members: 1 });
    },
  },

  {
    name: 'keys that differ in case, or hold anything, are kept apart',
    async run(open) {
      const { engine } = await open();
      const keys = ['club', 'Club', `c'l"u;b`, 'x'.repeat(200)];
      for (const [index, key] of keys.entries()) await settle(engine, { key, sql: usersSql(`u${index}`) });
      for (const [index, key] of keys.entries()) {
        assert.deepEqual([...(await engine.lookup(key, ['u0', 'u1', 'u2', 'u3'])).keys()], [`u${index}`]);
      }
    },
  },

  {
    name: 'what is wrong with a definition is said, and the snapshot stays',
    async run(open) {
      const { engine } = await open();
      await settle(engine, { sql: usersSql('a') });
      for (const [sql, code] of [
        ['select user_id from nowhere', 'sql_failed'],
        ['selec 1 as user_id', 'sql_failed'],
        ['', 'sql_failed'],
        ['select 1 as user_id; select 2 as user_id', 'sql_failed'],
        ['select 1 as customer', 'column_missing'],
        ['select true as user_id', 'column_type'],
        [`select cast('x' as varchar) as user_id where 1 = cast('x' as integer)`, 'sql_failed'],
      ] as const) {
        await assert.rejects(engine.stage(request({ toVersion: 2, sql })), { code, message: /^club: / }, sql);
      }
      await assert.rejects(engine.stage(request({ kind: 'trait', sql: usersSql('a') })), { code: 'column_missing' });
      assert.deepEqual(await engine.snapshot('club'), { version: 1, members: 1 });
      assert.partialDeepStrictEqual(
        await engine.stage(request({ toVersion: 2, sql: usersSql('a') })),
        { total: 0 },
        'and it works again',
      );
    },
  },

  {
    name: 'a definition can be interrupted',
    async run(open) {
      const { engine } = await open();
      const stop = new AbortController();
      const sql = `with recursive n as (select 1 as i union all select i + 1 from n where i < 2000000000) select i as user_id from n`;
      const staging = engine.stage(request({ sql, signal: stop.signal }));
      setImmediate(() => stop.abort(new Error('enough')));
      await assert.rejects(staging, { message: 'enough' });
      assert.partialDeepStrictEqual(await engine.stage(request({ sql: usersSql('a') })), { total: 1 });
    },
  },
];
