import type { Test } from 'tap';
import { type EngineFixture, request } from './engine.ts';

/** Of the engines that know how long the values of a plan are before they read them. */
export function readsLittleOfLongValues(t: Test, open: (t: Test) => Promise<EngineFixture>): void {
  t.test('shortens pages of long values to fit memory and skips none', async (t) => {
    const { engine } = await open(t);
    const ids = Array.from({ length: 200 }, (_, n) => `u${String(n).padStart(3, '0')}`);
    const rows = ids.map((id, n) => `('${id}', ${n < 20 ? 1 : 200_000})`).join(', ');
    const sql = `select user_id, repeat('x', length) as value from (values ${rows}) as list(user_id, length)`;
    const { plan } = await engine.stage(request({ kind: 'trait', sql }));
    await engine.forget(['u050', 'u199']);
    const pages: string[][] = [];
    for (let after = 0; ; ) {
      const { positions, userIds } = await engine.changes(plan, after, 5_000);
      const last = positions.at(-1);
      if (last === undefined) break;
      pages.push([...userIds]);
      after = last;
    }
    t.same(
      pages.flat(),
      ids.filter((id) => id !== 'u050' && id !== 'u199'),
    );
    t.same(
      pages.map(({ length }) => length),
      [99, 79, 20],
    );
    t.same((await engine.changes(plan, 30, 2)).userIds, ['u030', 'u031']);
  });
}
