import t from 'tap';
import { openEngines } from './helpers/engines.ts';
import { alias, identify, order } from './helpers/event.ts';

const LONG = 5_000;

t.test('resolves chains and circles of thousands of aliases in any order', async (t) => {
  for (const { type, fill, session, prefix } of await openEngines(t)) {
    await fill([]);
    // Step by step, a chain of n ids would take n² / 2 rows.
    const alias = (former: string, user: string, n: string) =>
      `SELECT 'm' || ${n}, 'alias', ${user}, ${former}, TIMESTAMP '2026-01-01' + n * INTERVAL '1 minute'
       FROM generate_series(1, ${LONG}) AS g(n)`;
    const step = `(n * 7919) % ${LONG}`;
    await session.run(
      `INSERT INTO ${prefix}logged (message_id, type, user_id, previous_id, "timestamp")
       ${alias(`'c' || ${step}`, `'c' || (${step} + 1)`, 'n')} UNION ALL
       ${alias("'r' || n", `'r' || (n % ${LONG} + 1)`, `${LONG} + n`)}`,
    );
    await session.run(`UPDATE ${prefix}logged SET received_at = "timestamp"`);
    const rows = await session.rows(
      `SELECT user_id, CAST(count(*) AS varchar) FROM ${prefix}identities WHERE kind = 'user' GROUP BY 1 ORDER BY 1`,
    );
    // The last alias of the circle is that of its last id to its first.
    t.strictSame(
      rows,
      [
        [`c${LONG}`, String(LONG)],
        ['r1', String(LONG - 1)],
      ],
      type,
    );
  }
});

t.test('lists each person once in the view of users, with the latest of each trait', async (t) => {
  for (const { type, fill, session, prefix } of await openEngines(t)) {
    await fill([
      identify('old anonymous:x', '9d', { plan: 'free', name: 'Ann', tags: ['a'], gone: 1 }),
      identify('anonymous:x', '8d', { plan: 'pro', gone: null }),
      alias('old', 'new', '7d'),
      order('u2 anonymous:y', '6d'),
      order('anonymous:z', '6d'),
    ]);
    const rows = await session.rows(`SELECT user_id, CAST(traits AS varchar) FROM ${prefix}users ORDER BY 1`);
    t.strictSame(
      rows.map(([user, traits]) => [user, JSON.parse(String(traits))]),
      [
        ['new', { name: 'Ann', plan: 'pro', tags: ['a'] }],
        ['u2', {}],
      ],
      type,
    );
    const known = await session.rows(`SELECT kind, id, user_id FROM ${prefix}identities ORDER BY 1, 2`);
    t.strictSame(
      known,
      [
        ['anonymous', 'old', 'new'],
        ['anonymous', 'x', 'new'],
        ['user', 'old', 'new'],
      ],
      type,
    );
  }
});
