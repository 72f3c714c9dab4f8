import assert from 'node:assert/strict';
import { type EngineCase, engineCase } from '../../engines/contract/case.ts';
import { request, told } from '../../engines/contract/fixture.ts';

/** Cases about reading alone. */
export const readingCases: readonly EngineCase[] = [
  engineCase('ids are compared by their bytes, and not trimmed', async ({ engine, usersSql }) => {
    const ids = ['a', 'A', 'a ', ' a', 'é', 'e', 'É', 'a\nb', 'a\\nb', 'a\\', '\u001b', '\u001bn', 'ß', 'ss', '"a"'];
    const staged = await engine.stage(request({ sql: usersSql(...ids) }));
    const { userIds } = await engine.changes(staged.plan, 0, 100);
    assert.deepEqual(userIds.toSorted(), ids.toSorted());
  }),
  engineCase('a number with places is no id, whatever its value', async ({ engine, spelling }) => {
    const sql = `select ${spelling.double('1')} as user_id`;
    if (spelling.hasTypes) await assert.rejects(engine.stage(request({ sql })), { code: 'column_type' });
    else assert.partialDeepStrictEqual(await engine.stage(request({ sql })), { invalid: 1, members: 0 });
  }),
  engineCase('a column that is named twice is refused', async ({ engine }) => {
    const sql = `select 'a' as user_id, 1 as score, 2 as score`;
    const trait = request({ kind: 'trait', key: 'score', sql });
    await assert.rejects(engine.stage(trait), ({ code }: { readonly code?: string }) =>
      /^(column_repeated|sql_failed)$/.test(code ?? ''),
    );
  }),
  engineCase(
    'a failure after many rows leaves nothing, and the next reading is whole',
    async ({ engine, spelling }) => {
      const sql = `select n as user_id from (${spelling.series(50_000)}) as numbers`;
      const stop = new AbortController();
      const staging = engine.stage(request({ sql: spelling.endless, signal: stop.signal }));
      setTimeout(() => stop.abort(new Error('enough')), 300);
      await assert.rejects(staging, { message: 'enough' });
      assert.deepEqual(await engine.snapshot('club'), { version: 0, members: 0 });
      const { plan, members } = await engine.stage(request({ sql }));
      assert.equal(members, 50_000);
      assert.equal(told(await engine.changes(plan, 0, 50_001)).length, 50_000);
    },
  ),
];
