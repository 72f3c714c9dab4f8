import assert from 'node:assert/strict';
import { type EngineCase, engineCase } from './case.ts';
import { request, settle, told } from './fixture.ts';

/** Cases about the life of a snapshot and its users. */
export const lifeCases: readonly EngineCase[] = [
  engineCase('snapshots belong to one store at a time, for every session', async ({ engine, reopen, usersSql }) => {
    const { ownership } = engine;
    if (!ownership) return;
    assert.equal(await ownership.store(), null);
    assert.deepEqual(await ownership.versions(), new Map());
    await settle(engine, { sql: usersSql('a') });
    await settle(engine, { sql: usersSql('b') });
    await ownership.give('one', null);
    await ownership.give('two', null);
    assert.equal(await ownership.store(), 'one', 'the first to claim them has them');
    await ownership.give('two', 'three');
    const reader = (await reopen({ readOnly: true })).ownership;
    assert.equal(await reader?.store(), 'one', 'a takeover names the owner');
    assert.deepEqual(await reader?.versions(), new Map([['club', 2]]));
    await ownership.give('two', 'one');
    assert.equal(await (await reopen()).ownership?.store(), 'two');
  }),
  engineCase('a resync has everybody, and everybody who ever left', async ({ engine, usersSql }) => {
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
  }),
  engineCase('a backfill is the snapshot as it stands, with leavers where asked for', async ({ engine, usersSql }) => {
    await settle(engine, { sql: usersSql('a', 'b') });
    await settle(engine, { sql: usersSql('b') });
    const whole = await engine.stage(request({ action: 'backfill', toVersion: 2 }));
    assert.deepEqual(told(await engine.changes(whole.plan, 0, 10)), [['b', true]]);
    const known = await engine.stage(request({ action: 'backfill', toVersion: 2, leavers: true }));
    assert.partialDeepStrictEqual(known, { total: 2, members: 1 });
    await engine.commit(known.plan);
    assert.deepEqual(await engine.snapshot('club'), { version: 2, members: 1 }, 'the snapshot stays');
  }),
  engineCase(
    'a withdrawal takes everybody back, with leavers where asked for, and the snapshot stays',
    async ({ engine, usersSql }) => {
      await settle(engine, { sql: usersSql('a', 'b') });
      await settle(engine, { sql: usersSql('b', 'c') });
      const members = await engine.stage(request({ action: 'withdraw', toVersion: 3 }));
      assert.partialDeepStrictEqual(members, { total: 2, members: 2, exited: 2, fromVersion: 2 });
      assert.deepEqual(told(await engine.changes(members.plan, 0, 10)), [
        ['b', false],
        ['c', false],
      ]);
      const all = await engine.stage(request({ action: 'withdraw', toVersion: 3, leavers: true }));
      assert.deepEqual((await engine.changes(all.plan, 0, 10)).userIds, ['a', 'b', 'c']);
      await engine.commit(all.plan);
      assert.deepEqual(await engine.snapshot('club'), { version: 2, members: 2 });
    },
  ),
  engineCase(
    'retire tells everybody that it is over, keeps them as leavers, and a drop leaves nothing',
    async ({ engine, usersSql }) => {
      await settle(engine, { sql: usersSql('a', 'b') });
      const staged = await engine.stage(request({ action: 'retire', toVersion: 2 }));
      assert.deepEqual(told(await engine.changes(staged.plan, 0, 10)), [
        ['a', false],
        ['b', false],
      ]);
      await engine.commit(staged.plan);
      await engine.commit(staged.plan);
      assert.deepEqual(await engine.snapshot('club'), { version: 2, members: 0 });
      const left = await engine.stage(request({ action: 'withdraw', toVersion: 3, leavers: true, leasedAt: 0 }));
      assert.deepEqual(told(await engine.changes(left.plan, 0, 10)), [
        ['a', false],
        ['b', false],
      ]);
      await engine.drop('club');
      await engine.drop('club');
      assert.deepEqual(await engine.snapshot('club'), { version: 0, members: 0 });
      assert.deepEqual(await engine.lookup('club', ['a']), new Map());
      await engine.commit(staged.plan);
      assert.deepEqual(await engine.snapshot('club'), { version: 0, members: 0 }, 'also if it is committed again');
      await engine.discard(staged.plan);
      await settle(engine, { sql: usersSql('a') });
      assert.deepEqual(await engine.snapshot('club'), { version: 1, members: 1 }, 'and it can begin anew');
    },
  ),
  engineCase('a look-up says who is in since when, and what a plan makes of it', async ({ engine, usersSql }) => {
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
  }),
  engineCase('a forgotten user is nowhere', async ({ engine, usersSql }) => {
    await settle(engine, { sql: usersSql('a', "o'x", 'c') });
    await settle(engine, { sql: usersSql("o'x", 'c') });
    const { plan } = await engine.stage(request({ toVersion: 3, sql: usersSql('c', 'd') }));
    await engine.forget(['a', "o'x", 'd']);
    await engine.scrub('all');
    assert.deepEqual((await engine.changes(plan, 0, 10)).userIds, []);
    await engine.commit(plan);
    assert.deepEqual(await engine.snapshot('club'), { version: 3, members: 1 });
    assert.deepEqual([...(await engine.lookup('club', ['a', "o'x", 'c', 'd'])).keys()], ['c']);
  }),
  engineCase('all of it is there after the engine was closed', async ({ engine, reopen, usersSql }) => {
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
  }),
  engineCase('keys that differ in case, or hold anything, are kept apart', async ({ engine, usersSql }) => {
    const keys = ['club', 'Club', `c'l"u;b`, 'x'.repeat(200)];
    for (const [index, key] of keys.entries()) await settle(engine, { key, sql: usersSql(`u${index}`) });
    for (const [index, key] of keys.entries()) {
      assert.deepEqual([...(await engine.lookup(key, ['u0', 'u1', 'u2', 'u3'])).keys()], [`u${index}`]);
    }
  }),
];
