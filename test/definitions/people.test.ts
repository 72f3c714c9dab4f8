import t from 'tap';
import { openEngines } from './helpers/engines.ts';
import { alias, identify, order } from './helpers/event.ts';

t.test('the view of users has each person once, with the latest of each trait', async (t) => {
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
