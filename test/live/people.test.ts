import t from 'tap';
import { askedOf } from '../../jobs/live/asked.ts';
import { step } from '../../jobs/live/people.ts';
import { alias, identify, NOW, order } from '../definitions/helpers/event.ts';
import { RowsInMemory } from './helpers/rows.ts';

t.test('a former id that is looked at, as one of its members, loses nothing', async (t) => {
  const activity = { event: 'Order Completed', within: null, since: null, where: [] };
  const twice = { performed: activity, least: 2, most: null };
  const asked = askedOf([{ key: 'twice', kind: 'audience', when: twice }], Number.POSITIVE_INFINITY);
  const rows = new RowsInMemory();
  const take = async (events: Parameters<typeof step>[2]['events'], due: readonly string[] = []) => {
    const done = await step(asked, rows, { events, memberships: [], due, old: [], now: NOW, first: 0 });
    rows.write(done.rows);
    return Object.fromEntries(done.standings.map(({ person, values }) => [person, values.get('twice')]));
  };
  await take([order('ann', '2d'), alias('ann', 'anna', '1d')]);
  t.same(await take([], ['ann']), { ann: undefined });
  t.same(await take([order('ann', '1h')]), { anna: true }, 'what it did before counts for whom it became');
});

t.test('what somebody did anonymously counts beside the first thing done under a user id', async (t) => {
  const activity = { event: 'Order Completed', within: null, since: null, where: [] };
  const asked = askedOf(
    [{ key: 'twice', kind: 'audience', when: { performed: activity, least: 2, most: null } }],
    Number.POSITIVE_INFINITY,
  );
  const rows = new RowsInMemory();
  const take = async (event: Parameters<typeof step>[2]['events'][number]) => {
    const done = await step(asked, rows, { events: [event], memberships: [], due: [], old: [], now: NOW, first: 0 });
    rows.write(done.rows);
    return Object.fromEntries(done.standings.map(({ person, values }) => [person, values.get('twice')]));
  };
  await take(order('anonymous:phone', '3d'));
  t.same(await take(identify('ann anonymous:phone', '2d')), { ann: undefined });
  t.same(await take(order('ann', '1d')), { ann: true }, 'nothing was kept of the user id itself');
});
