import assert from 'node:assert/strict';
import { type EngineCase, engineCase } from './case.ts';
import { ONE, request, settle, told } from './fixture.ts';

/** Cases about definitions: their time, ids and columns, and their mistakes. */
export const definitionCases: readonly EngineCase[] = [
  engineCase('$now is the time of the run, as a UTC timestamp', async ({ engine, spelling }) => {
    const sql = `select 'u' as user_id from ${ONE} where $now = ${spelling.moment('1997-06-01 10:00:00.000')} -- $now`;
    assert.partialDeepStrictEqual(await engine.stage(request({ sql, asOf: Date.parse('1997-06-01T10:00:00Z') })), {
      total: 1,
    });
    assert.partialDeepStrictEqual(await engine.stage(request({ sql, asOf: Date.parse('1997-06-01T10:00:00.001Z') })), {
      total: 0,
    });
    const text = `select '$now' as user_id`;
    const { plan } = await engine.stage(request({ sql: text }));
    assert.deepEqual((await engine.changes(plan, 0, 1)).userIds, ['$now'], 'but not within a string');
  }),
  engineCase(
    'the newest value of a column is found where it is asked for, and is no trait',
    async ({ engine, spelling, usersSql }) => {
      const sql = `select 'a' as user_id, 1 as score, ${spelling.moment('2026-02-28 10:00:00.250')} as "Seen"
        union all select 'b', 2, ${spelling.moment('2026-02-27 10:00:00.000')} union all select 'c', 3, null`;
      const trait = request({ key: 'score', kind: 'trait', sql, freshness: 'seen' });
      const staged = await engine.stage(trait);
      assert.equal(staged.newest, Date.parse('2026-02-28T10:00:00.250Z'));
      assert.deepEqual(staged.columns, ['score']);
      assert.equal((await engine.preview({ ...trait, plan: 'preview' }, 1)).newest, staged.newest);
      const days = `select 'a' as user_id, ${spelling.day('2026-02-28')} as day`;
      const audience = await engine.stage(request({ key: 'days', sql: days, freshness: 'day' }));
      assert.equal(audience.newest, Date.parse('2026-02-28T00:00:00Z'));
      const nothing = await engine.stage(
        request({ key: 'none', sql: `select * from (${days}) as days where 1 = 0`, freshness: 'day' }),
      );
      assert.equal(nothing.newest, null);
      await assert.rejects(engine.stage(request({ sql: usersSql('a'), freshness: 'seen' })), {
        code: 'column_missing',
      });
    },
  ),
  engineCase(
    'of the values of that column, those beyond the time of the run say nothing',
    async ({ engine, spelling }) => {
      const newest = async (...times: readonly string[]) => {
        const rows = times.map((time, row) => `select 'u${row}' as user_id, ${spelling.moment(time)} as seen`);
        const staged = await engine.stage(request({ sql: rows.join(' union all '), freshness: 'seen' }));
        return new Date(staged.newest ?? Number.NaN).toISOString();
      };
      const [old, ahead, beyond, never] = [
        '2020-01-01 00:00:00.000',
        '2026-03-02 02:00:00.000',
        '2026-03-02 02:00:00.001',
        '2200-01-01 00:00:00.000',
      ];
      assert.equal(await newest(never, old), '2020-01-01T00:00:00.000Z');
      assert.equal(
        await newest(old, ahead, beyond),
        '2026-03-02T02:00:00.000Z',
        'local times are ahead by 14 hours at most',
      );
      assert.equal(await newest(never, beyond), '2200-01-01T00:00:00.000Z', 'where there are no others, they are told');
    },
  ),
  engineCase('ids of other types become text', async ({ engine, usersSql }) => {
    await settle(engine, { sql: 'select 1 as user_id union all select 20' });
    const staged = await engine.stage(request({ toVersion: 2, sql: usersSql('1', '20') }));
    assert.partialDeepStrictEqual(staged, { total: 0, members: 2 }, 'a number and its text are one user');
  }),
  engineCase('traits: values by type, only when changed, null once gone', async ({ engine, spelling }) => {
    const { moment, day, double, hasBooleans, hasNaN, hasTypes } = spelling;
    const trait = (sql: string, toVersion = 1) => request({ key: 'profile', kind: 'trait', sql, toVersion });
    const first = await engine.stage(
      trait(`select 'a' as user_id, 12.50 as amount, true as vip, ${day('1997-01-01')} as since,
               ${moment('1997-01-01 10:00:00')} as seen, 'x"y' as note, ${double('0.1')} + 0.2 as ratio
             union all select 'b', null, null, null, null, null, ${hasNaN ? double('nan') : 'null'}
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
      vip: hasBooleans ? true : 1,
      since: '1997-01-01',
      seen: hasTypes ? '1997-01-01T10:00:00.000Z' : '1997-01-01 10:00:00',
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
  }),
  engineCase(
    'what JSON has no form for is null, within lists too, and times look as they do elsewhere',
    async ({ engine, spelling }) => {
      const { list, moment, day: dayOf, double, hasInfinity, hasTimes } = spelling;
      if (!list) return;
      const trait = (sql: string) => request({ key: 'odd', kind: 'trait', sql });
      const value = async (sql: string) => {
        const { plan } = await engine.stage(trait(`select 'u' as user_id, ${sql}, 1 as n`));
        const [[, traits] = []] = told(await engine.changes(plan, 0, 10));
        const { n: _, ...rest } = traits as Record<string, unknown>;
        return rest;
      };
      const floats = ['nan', 'infinity', '-infinity', '0.1'].map(double);
      assert.deepEqual(await value(`${list(floats)} as list`), { list: [null, null, null, 0.1] });
      assert.deepEqual(await value(`${list([list([double('nan'), '1.5'])])} as list`), { list: [[null, 1.5]] });
      if (hasInfinity) {
        assert.deepEqual(
          await value(`date 'infinity' as never, timestamp 'infinity' as later, timestamp '-infinity' as before`),
          { never: null, later: null, before: null },
        );
        const day = dayOf('0001-01-01');
        const at = moment('0001-01-01 00:00:00');
        assert.deepEqual(
          await value(`${day} as day, ${day} - 1 as before, ${at} as first, ${at} - interval '1 day' as earlier,
            ${list([`${day} - 1`, day])} as days, ${list([`${at} - interval '1 day'`])} as times`),
          {
            ...{ day: '0001-01-01', before: null, first: '0001-01-01T00:00:00.000Z', earlier: null },
            ...{ days: [null, '0001-01-01'], times: [null] },
          },
          'years before the first, too',
        );
      }
      const never = (day: string, at: string) => (hasInfinity ? [day, at] : ['null', 'null']);
      const [noDay = '', noTime = ''] = never(`date 'infinity'`, `timestamp 'infinity'`);
      assert.deepEqual(
        await value(`${list([noDay, `date '1997-01-31'`])} as days, ${list([noTime, moment('1997-01-31 10:00:00.000')])} as seen,
          ${list([`cast('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' as UUID)`])} as ids`),
        {
          days: [null, '1997-01-31'],
          seen: [null, '1997-01-31T10:00:00.000Z'],
          ids: ['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'],
        },
      );
      if (hasTimes) assert.deepEqual(await value(`${list([`time '10:00:00'`])} as times`), { times: ['10:00:00'] });
      assert.deepEqual(
        await value(
          `nullif(${moment('1997-01-31 10:00:00.000')}, ${moment('1997-01-31 10:00:00.000')}) as seen, 'Infinity' as text`,
        ),
        {
          seen: null,
          text: 'Infinity',
        },
      );
    },
  ),
  engineCase(
    'a value that is too long for any receiver leaves its row out, and is counted',
    async ({ engine, spelling }) => {
      const sql = `select 'big' as user_id, ${spelling.repeat('x', 2_000_000)} as value union all select 'fits', ${spelling.repeat('x', 200_000)}`;
      const staged = await engine.stage(request({ kind: 'trait', sql }));
      assert.partialDeepStrictEqual(staged, { members: 1, invalid: 1, total: 1 });
    },
  ),
  engineCase('ids of white space only are left out, whatever kind of it', async ({ engine, usersSql }) => {
    const blanks = [
      '\v',
      '\f\r\n',
      '\u00a0',
      '\u1680',
      '\u2003\u200a',
      '\u2028',
      '\u202f',
      '\u205f',
      '\u3000',
      '\ufeff',
      ' \u3000',
    ];
    const staged = await engine.stage(request({ sql: usersSql(...blanks, '\u00a0a', 'a\u3000', '~', '\u00e9') }));
    assert.partialDeepStrictEqual(staged, { invalid: blanks.length, members: 4 });
  }),
  engineCase('ids of more than 1,000 bytes are left out, and counted', async ({ engine, usersSql }) => {
    const fits = ['x'.repeat(1_000), 'é'.repeat(500)];
    const sql = usersSql(...fits, 'x'.repeat(1_001), 'é'.repeat(501));
    const staged = await engine.stage(request({ sql }));
    assert.partialDeepStrictEqual(staged, { invalid: 2, members: 2 });
    assert.deepEqual((await engine.changes(staged.plan, 0, 10)).userIds.toSorted(), fits);
    const values = `select user_id, 1 as value from (${sql}) as users`;
    const trait = await engine.stage(request({ key: 'points', kind: 'trait', sql: values }));
    assert.partialDeepStrictEqual(trait, { invalid: 2, members: 2 });
  }),
  engineCase(
    'the traits of a definition keep the types of their values in JSON',
    async ({ engine, spelling, usersSql }) => {
      const describe = (sql: string, kind: 'audience' | 'trait' = 'trait') =>
        engine.describe({ key: 'profile', kind, sql, asOf: 0 });
      const types = await describe(
        `select 'a' as user_id, 1 as n, cast(1.5 as decimal(9, 2)) as amount, ${spelling.double('1')} as ratio, true as vip,
           ${spelling.text("'x'")} as note, ${spelling.day('1997-01-01')} as since, ${spelling.moment('1997-01-01 10:00:00')} as seen
         from ${ONE} where $now = $now and 1 = 0`,
      );
      if (spelling.hasTypes)
        assert.deepEqual(
          types.map(({ key, type, isList }) => `${key} ${type}${isList ? ' list' : ''}`),
          [
            'n number',
            'amount number',
            'ratio number',
            `vip ${spelling.hasBooleans ? 'boolean' : 'number'}`,
            'note string',
            'since string',
            'seen string',
          ],
        );
      for (const [value, type] of [
        [spelling.text("'x'"), 'string'],
        [spelling.moment('1997-01-01 10:00:00'), 'string'],
        [spelling.double('1'), 'number'],
      ] as const) {
        if (!spelling.list) break;
        assert.deepEqual(await describe(`select 'a' as user_id, ${spelling.list([value])} as any_name`), [
          { key: 'profile', type, isList: true },
        ]);
      }
      assert.deepEqual(await describe(usersSql('a'), 'audience'), []);
      await assert.rejects(describe('select user_id from nowhere'), { code: 'sql_failed', message: /^profile: / });
      await assert.rejects(describe(usersSql('a')), { code: 'column_missing' });
    },
  ),
  engineCase(
    'what is wrong with a definition is said, and the snapshot stays',
    async ({ engine, usersSql, spelling }) => {
      await settle(engine, { sql: usersSql('a') });
      for (const [sql, code] of [
        ['select user_id from nowhere', 'sql_failed'],
        ['selec 1 as user_id', 'sql_failed'],
        ['', 'sql_failed'],
        ['select 1 as user_id; select 2 as user_id', 'sql_failed'],
        ['select 1 as customer', 'column_missing'],
        ...(spelling.hasBooleans ? ([['select true as user_id', 'column_type']] as const) : []),
        ...(spelling.failing === null ? [] : ([[spelling.failing, 'sql_failed']] as const)),
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
  ),
  engineCase('a definition can be interrupted', async ({ engine, usersSql, spelling }) => {
    const stop = new AbortController();
    const sql = spelling.endless;
    const staging = engine.stage(request({ sql, signal: stop.signal }));
    setImmediate(() => stop.abort(new Error('enough')));
    await assert.rejects(staging, { message: 'enough' });
    assert.partialDeepStrictEqual(await engine.stage(request({ sql: usersSql('a') })), { total: 1 });
  }),
];
