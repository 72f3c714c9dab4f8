import t from 'tap';
import { request, told } from '../../contract/engine.ts';
import { openInParts } from '../../contract/in-parts.ts';

t.test('tells of a newcomer in a later part than members who only lack their hash', async (t) => {
  const engine = await openInParts(':memory:');
  t.teardown(() => engine.close());
  const values = (rows: string) => `SELECT * FROM (VALUES ${rows}) AS rows (user_id, score)`;
  // Which part has whom is up to a hash.
  for (const newcomer of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']) {
    const about = { key: `score_${newcomer}`, kind: 'trait' } as const;
    // Rows that differ leave no hash.
    const first = await engine.stage(request({ ...about, sql: values("('x', 1), ('x', 2), ('y', 1), ('y', 2)") }));
    await engine.commit(first.plan);
    const sql = values(`('x', 2), ('y', 2), ('${newcomer}', 1)`);
    const { plan } = await engine.stage(request({ ...about, toVersion: 2, sql }));
    t.match(told(await engine.changes(plan, 0, 10)), [[newcomer]], newcomer);
    await engine.discard(plan);
  }
});
