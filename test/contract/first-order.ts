import type { Test } from 'tap';
import { type EngineFixture, request, settle } from './engine.ts';

/** Of the engines whose join is the faster, the more its two sides lie in the same order. */
export function liesInOrder(t: Test, open: (t: Test) => Promise<EngineFixture>): void {
  t.test('stores the first snapshot in the order of its definition, which speeds up later joins', async (t) => {
    const { engine } = await open(t);
    const ids = Array.from({ length: 5_000 }, (_, n) => `u${(n * 7_919) % 5_003}`);
    const rows = [...ids, ...ids.slice(0, 3)].map((id, n) => `('${id}', ${n})`).join(', ');
    const sql = `select user_id from (values ${rows}) as list(user_id, n)`;
    const inOrder = async () => {
      const found: string[] = [];
      for await (const { userIds } of engine.members('club')) found.push(...userIds);
      return found;
    };
    t.same(await engine.snapshot('club'), { version: 0, members: 0 });
    t.match(await engine.preview(request({ sql }), 1), { members: 5_000, entered: 5_000, duplicates: 3 });
    await settle(engine, { sql });
    t.same(await inOrder(), ids);
    t.match(await engine.preview(request({ sql, toVersion: 2 }), 1), { members: 5_000, total: 0, duplicates: 3 });
    await settle(engine, { sql, action: 'resync' });
    t.same(await inOrder(), ids, 'and stays there');
    const trait = { key: 'last', kind: 'trait', sql: sql.replace('user_id', 'user_id, n as value') } as const;
    t.match(await engine.preview(request(trait), 1), { members: 5_000, entered: 5_000, duplicates: 3 });
    await settle(engine, trait);
    t.match(await engine.preview(request({ ...trait, toVersion: 2 }), 1), { members: 5_000, total: 0, duplicates: 3 });
  });
}
