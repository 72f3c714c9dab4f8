import t from 'tap';
import { dayNumber } from '../../jobs/live/event.ts';
import { askedOf } from '../../jobs/live/facts.ts';
import { step } from '../../jobs/live/people.ts';
import { alias, identify, NOW, order } from '../definitions/helpers/event.ts';
import { seeded } from './helpers/events.ts';
import { LiveModel, RowsInMemory } from './helpers/rows.ts';

const DAY = 86_400_000;

t.test('loses nothing when a former id is checked as a member', async (t) => {
  const activity = {
    kind: 'track',
    names: ['Order Completed'],
    within: null,
    until: 0,
    since: null,
    where: [],
  } as const;
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

t.test('counts anonymous activity together with the first activity under a user id', async (t) => {
  const activity = {
    kind: 'track',
    names: ['Order Completed'],
    within: null,
    until: 0,
    since: null,
    where: [],
  } as const;
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

t.test('moves all ids of a former id once the log has forgotten its alias', async (t) => {
  const activity = { kind: 'track', names: ['Refund'], within: null, until: 0, since: null, where: [] } as const;
  const never = { performed: activity, least: 0, most: 0 };
  const asked = askedOf([{ key: 'never', kind: 'audience', when: never }], 3 * DAY);
  const rows = new RowsInMemory();
  const first = dayNumber(NOW - 2 * DAY);
  const members: Record<string, unknown> = {};
  const take = async (events: Parameters<typeof step>[2]['events'], old: readonly string[] = []) => {
    const done = await step(asked, rows, { events, memberships: [], due: [], old, now: NOW, first });
    rows.write(done.rows);
    for (const { person, values } of done.standings) members[person] = values.get('never');
  };
  const before = [alias('ann', 'anna', '3d'), identify('ann anonymous:phone', '1d')];
  rows.write((await step(asked, rows, { events: before, memberships: [], due: [], old: [], now: NOW, first: 0 })).rows);
  await take([order('ann', '1h')]);
  t.same(members, { ann: true, anna: undefined }, 'also in a step that links nothing');
  await take([], rows.old(first));
  t.same(members, { ann: true, anna: undefined }, 'and in the next one, which looks for old ids');
  delete members['ann'];
  await take([order('anonymous:phone', '1h')]);
  t.same(members, { ann: true, anna: undefined }, 'the device is hers');
});

t.test('keeps no more of a very active person than definitions ask for', async (t) => {
  const within = 30 * DAY;
  const activity = { kind: 'track', names: ['Order Completed'], within, until: 0, since: null, where: [] } as const;
  const whens = { often: [3, null], some: [1, 4], never: [0, 1] } as const;
  const definitions = Object.entries(whens).map(([key, [least, most]]) => {
    return { key, kind: 'audience', when: { performed: activity, least, most } } as const;
  });
  const model = new LiveModel(askedOf(definitions, 400 * DAY));
  const random = seeded(7);
  const times: number[] = [];
  const compare = (now: number) => {
    const count = times.filter((at) => at > now - within).length;
    const law = { often: count >= 3, some: count >= 1 && count <= 4, never: count <= 1 };
    const live = Object.keys(whens).map((key) => [key, model.members.get(key)?.has('bot') ?? false]);
    t.same(Object.fromEntries(live), law, `${count} of ${times.length}`);
  };
  let now = NOW;
  for (let batch = 0; batch < 20; batch += 1) {
    now += DAY;
    const events = Array.from({ length: 5_000 }, (_, index) => {
      const timestamp = now - Math.round(random() ** 2 * 40 * DAY);
      times.push(timestamp);
      return { ...order('bot', '1d'), messageId: `${batch}-${index}`, timestamp, receivedAt: now };
    });
    await model.advance(events, now);
    compare(now);
    t.ok(model.size < 300, `${model.size} characters are kept`);
  }
  // They leave one after the other, in the end by time alone.
  const last = times.toSorted((a, b) => b - a).slice(0, 6);
  for (const at of last.toReversed()) {
    await model.advance([], at + within - 1);
    compare(at + within - 1);
    await model.advance([], at + within);
    compare(at + within);
  }
});
