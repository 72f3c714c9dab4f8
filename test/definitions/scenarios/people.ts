import { alias, at, identify, NOW, order, track } from '../helpers/event.ts';
import { members, story } from '../helpers/scenario.ts';

const bought = { performed: 'Order Completed' };
const isPro = { trait: 'plan', is: 'pro' };

export const traits = [
  members(
    'a trait as identify said it',
    isPro,
    [identify('u1', '1d', { plan: 'pro' }), identify('u2', '1d', { plan: 'free' })],
    ['u1'],
  ),
  members(
    'the latest identify that has the trait counts',
    isPro,
    [
      identify('u1', '3d', { plan: 'free' }),
      identify('u1', '2d', { plan: 'pro' }),
      identify('u1', '1d', { name: 'Ann' }),
      identify('u2', '2d', { plan: 'pro' }),
      identify('u2', '1d', { plan: 'free' }),
    ],
    ['u1'],
  ),
  members(
    'the latest is by when it happened, not when it came',
    isPro,
    [identify('u1', '1d', { plan: 'pro' }), identify('u1', '5d', { plan: 'free' }, { received: '1h' })],
    ['u1'],
  ),
  members(
    'of the same time the one received later counts',
    isPro,
    [
      identify('u1', '2d', { plan: 'pro' }, { received: '1d' }),
      identify('u1', '2d', { plan: 'free' }, { received: '36h' }),
    ],
    ['u1'],
  ),
  members(
    'of the same time and receipt the greater message id counts',
    isPro,
    [
      identify('u1', '2d', { plan: 'pro' }, { messageId: 'b' }),
      identify('u1', '2d', { plan: 'free' }, { messageId: 'a' }),
      identify('u2', '2d', { plan: 'pro' }, { messageId: 'B' }),
      identify('u2', '2d', { plan: 'free' }, { messageId: 'a2' }),
    ],
    ['u1'],
  ),
  members(
    'null takes a trait away',
    isPro,
    [identify('u1', '2d', { plan: 'pro' }), identify('u1', '1d', { plan: null })],
    [],
  ),
  members(
    'isNot has those who lack the trait',
    { trait: 'plan', isNot: 'pro' },
    [
      identify('u1', '1d', { plan: 'pro' }),
      identify('u2', '1d', { plan: 'free' }),
      track('u3', 'Other', '1d'),
      identify('u4', '1d', { plan: null }),
    ],
    ['u2', 'u3', 'u4'],
  ),
  members(
    'exists',
    { trait: 'email', exists: true },
    [identify('u1', '1d', { email: 'a@b' }), identify('u2', '1d', {})],
    ['u1'],
  ),
  members(
    'does not exist',
    { trait: 'email', exists: false },
    [identify('u1', '1d', { email: 'a@b' }), identify('u2', '1d', {}), identify('u3', '1d', { email: null })],
    ['u2', 'u3'],
  ),
  members(
    'does not exist, and is not: both pass who lacks it',
    { trait: 'plan', exists: false, isNot: 'pro' },
    [track('u1', 'Other', '1d'), identify('u2', '1d', { plan: 'free' })],
    ['u1'],
  ),
  members(
    'exists, and is not',
    { trait: 'plan', exists: true, isNot: 'pro' },
    [track('u1', 'Other', '1d'), identify('u2', '1d', { plan: 'free' }), identify('u3', '1d', { plan: 'pro' })],
    ['u2'],
  ),
  members(
    'numbers in traits',
    { trait: 'age', gte: 18, lt: 65 },
    [identify('u1', '1d', { age: 18 }), identify('u2', '1d', { age: 65 }), identify('u3', '1d', { age: '30' })],
    ['u1'],
  ),
  members(
    'a trait that is a list',
    { trait: 'tags', contains: 'vip' },
    [identify('u1', '1d', { tags: ['vip'] }), identify('u2', '1d', { tags: [] })],
    ['u1'],
  ),
  members(
    'one of several values',
    { trait: 'plan', in: ['pro', 'team'] },
    [identify('u1', '1d', { plan: 'team' }), identify('u2', '1d', { plan: 'x' })],
    ['u1'],
  ),
  members(
    'a trait within a trait; a later one replaces it whole',
    { trait: 'address.city', is: 'Rome' },
    [
      identify('u1', '1d', { address: { city: 'Rome' } }),
      identify('u2', '2d', { address: { city: 'Rome' } }),
      identify('u2', '1d', { address: { zip: '1' } }),
    ],
    ['u1'],
  ),
  members(
    'traits of groups and of other events are no traits of a person',
    isPro,
    [
      { ...identify('u1', '1d', { plan: 'pro' }), type: 'group' },
      track('u2', 'Other', '1d', {}, { traits: { plan: 'pro' } }),
    ],
    [],
  ),
];

const done = [
  order('u1', '1d'),
  order('u2', '1d'),
  track('u2', 'Refund', '1d'),
  track('u3', 'Refund', '1d'),
  track('u4', 'Other', '1d'),
];
const refunded = { performed: 'Refund' };
const { sql } = { sql: `select 'u2' as user_id union all select 'outside' union all select null -- odd ones\n;` };

export const logic = [
  members('all', { all: [bought, refunded] }, done, ['u2']),
  members('any', { any: [bought, refunded] }, done, ['u1', 'u2', 'u3']),
  members('not', { not: bought }, done, ['u3', 'u4']),
  members('not within all', { all: [bought, { not: refunded }] }, done, ['u1']),
  members('not of not', { not: { not: bought } }, done, ['u1', 'u2']),
  members('not any', { not: { any: [bought, refunded] } }, done, ['u4']),
  members('not all', { not: { all: [bought, refunded] } }, done, ['u1', 'u3', 'u4']),
  members('all within any within not', { not: { any: [{ all: [bought, refunded] }, { performed: 'Other' }] } }, done, [
    'u1',
    'u3',
  ]),
  members('the same condition twice', { any: [bought, { all: [bought, refunded] }] }, done, ['u1', 'u2']),
  members('one and the opposite of it is nobody', { all: [bought, { not: bought }] }, done, []),
  members('one or the opposite of it is everybody', { any: [bought, { not: bought }] }, done, ['u1', 'u2', 'u3', 'u4']),
  members('never, and something else', { all: [{ ...bought, exactly: 0 }, refunded] }, done, ['u3']),
  members('in another audience', { all: [refunded, { inAudience: 'buyers' }] }, done, ['u2'], {
    buyers: { when: bought },
  }),
  members('in another audience alone', { inAudience: 'buyers' }, done, ['u1', 'u2'], { buyers: { when: bought } }),
  members('not in another audience', { not: { inAudience: 'buyers' } }, done, ['u3', 'u4'], {
    buyers: { when: bought },
  }),
  members('over two audiences', { inAudience: 'b' }, done, ['u1'], {
    a: { when: refunded },
    b: { when: { all: [bought, { not: { inAudience: 'a' } }] } },
  }),
  members('an audience by SQL counts as computed now', { inAudience: 'list' }, done, ['outside', 'u2'], {
    list: { sql },
  }),
  members(
    'members of another audience are known, though the log has nothing of them',
    { all: [{ inAudience: 'list' }, { not: refunded }] },
    done,
    ['outside'],
    { list: { sql } },
  ),
  members('not in an audience by SQL', { not: { inAudience: 'list' } }, done, ['u1', 'u3', 'u4'], { list: { sql } }),
];

const visit = (who: string, when: string) => track(who, 'Visited', when);

export const identities = [
  members(
    'an anonymous id that nobody was identified with is nobody',
    { performed: 'Visited' },
    [visit('anonymous:x', '1d')],
    [],
  ),
  members(
    'what an anonymous id did before counts',
    { performed: 'Visited' },
    [visit('anonymous:x', '3d'), identify('u1 anonymous:x', '2d')],
    ['u1'],
  ),
  members(
    'what an anonymous id did after counts',
    { performed: 'Visited' },
    [identify('u1 anonymous:x', '2d'), visit('anonymous:x', '1d')],
    ['u1'],
  ),
  members(
    'counts are over all ids of a person',
    { performed: 'Visited', atLeast: 3 },
    [
      visit('anonymous:x', '5d'),
      visit('anonymous:y', '4d'),
      identify('u1 anonymous:x', '3d'),
      identify('u1 anonymous:y', '2d'),
      visit('u1', '1d'),
    ],
    ['u1'],
  ),
  members(
    'a device that two people share belongs to the first',
    { performed: 'Visited', atLeast: 2 },
    [
      identify('u1 anonymous:x', '5d'),
      identify('u2 anonymous:x', '4d'),
      visit('anonymous:x', '3d'),
      visit('anonymous:x', '2d'),
    ],
    ['u1'],
  ),
  members(
    'who has logged in on a shared device is counted as themselves',
    { performed: 'Visited' },
    [identify('u1 anonymous:x', '5d'), identify('u2 anonymous:x', '4d'), visit('u2 anonymous:x', '3d')],
    ['u2'],
  ),
  members(
    'the first is by when it happened',
    { performed: 'Visited' },
    [
      identify('u2 anonymous:x', '4d', {}, { received: '4d' }),
      identify('u1 anonymous:x', '5d', {}, { received: '1d' }),
      visit('anonymous:x', '6d'),
    ],
    ['u1'],
  ),
  members(
    'only identify and alias say whose an anonymous id is',
    { performed: 'Visited' },
    [track('u1 anonymous:x', 'Other', '3d'), visit('anonymous:x', '2d')],
    [],
  ),
  members(
    'traits said before the user was known',
    isPro,
    [identify('anonymous:x', '3d', { plan: 'pro' }), identify('u1 anonymous:x', '2d')],
    ['u1'],
  ),
  members(
    'an anonymous id and a user id of the same letters are two',
    { performed: 'Visited' },
    [identify('u1 anonymous:same', '3d'), visit('same', '2d')],
    ['same'],
  ),
  members(
    'an alias makes two user ids one person, under the new id',
    { performed: 'Visited', atLeast: 2 },
    [visit('old', '5d'), alias('old', 'new', '4d'), visit('new', '3d')],
    ['new'],
  ),
  members(
    'what the former id does later counts too',
    { performed: 'Visited', atLeast: 2 },
    [alias('old', 'new', '4d'), visit('old', '3d'), visit('old', '2d')],
    ['new'],
  ),
  members('a former id is nobody', { not: bought }, [visit('old', '5d'), alias('old', 'new', '4d')], ['new']),
  members(
    'an alias from an anonymous id',
    { performed: 'Visited' },
    [visit('anonymous:x', '5d'), alias('x', 'u1', '4d')],
    ['u1'],
  ),
  members(
    'chains of aliases',
    { performed: 'Visited' },
    [visit('a', '5d'), alias('a', 'b', '4d'), alias('b', 'c', '3d')],
    ['c'],
  ),
  members(
    'chains of aliases in another order',
    { performed: 'Visited' },
    [visit('a', '5d'), alias('b', 'c', '4d'), alias('a', 'b', '3d')],
    ['c'],
  ),
  members(
    'several former ids',
    { performed: 'Visited', atLeast: 3 },
    [visit('a', '5d'), visit('b', '5d'), visit('c', '5d'), alias('a', 'c', '4d'), alias('b', 'c', '3d')],
    ['c'],
  ),
  members(
    'of a circle the latest alias decides',
    { performed: 'Visited', atLeast: 2 },
    [visit('a', '9d'), visit('b', '9d'), alias('a', 'b', '5d'), alias('b', 'a', '4d')],
    ['a'],
  ),
  members(
    'a circle of three, and one that leads into it',
    { performed: 'Visited', atLeast: 4 },
    [
      visit('a', '9d'),
      visit('b', '9d'),
      visit('c', '9d'),
      visit('d', '9d'),
      alias('a', 'b', '5d'),
      alias('c', 'a', '4d'),
      alias('b', 'c', '3d'),
      alias('d', 'a', '2d'),
    ],
    ['c'],
  ),
  members(
    'a later alias of the same id takes it along',
    { performed: 'Visited' },
    [visit('a', '9d'), alias('a', 'b', '5d'), alias('a', 'c', '4d')],
    ['c'],
  ),
  members(
    'an alias to itself says nothing',
    { performed: 'Visited' },
    [visit('a', '9d'), alias('a', 'a', '5d')],
    ['a'],
  ),
  members(
    'an anonymous id of a former id',
    { performed: 'Visited' },
    [visit('anonymous:x', '9d'), identify('old anonymous:x', '8d'), alias('old', 'new', '7d')],
    ['new'],
  ),
  members(
    'traits of both ids, the latest of each',
    isPro,
    [identify('old', '9d', { plan: 'pro' }), identify('new', '5d', { name: 'Ann' }), alias('old', 'new', '4d')],
    ['new'],
  ),
  members('former ids in another audience', { inAudience: 'list' }, [alias('u2', 'new', '4d')], ['new', 'outside'], {
    list: { sql },
  }),
];

const recent = { when: { ...bought, within: '30d' } };

export const lives = [
  story(
    'somebody leaves by time alone, to the millisecond, and comes back',
    { events: [order('u1', '1d')], now: NOW, definition: recent, result: ['u1'] },
    { now: at('1d') + 30 * 86_400_000 - 1 },
    { now: at('1d') + 30 * 86_400_000, result: [] },
    { events: [order('u1', '1d'), order('u1', '2026-04-01')], now: at('2026-04-02'), result: ['u1'] },
  ),
  story(
    'somebody enters by time alone',
    {
      events: [order('u1', '1d')],
      now: NOW,
      definition: { when: { ...bought, exactly: 0, within: '30d' } },
      result: [],
    },
    { now: at('1d') + 30 * 86_400_000, result: ['u1'] },
  ),
  story(
    'an edited definition',
    { events: [order('u1', '40d'), order('u2', '1d')], now: NOW, definition: recent, result: ['u2'] },
    { definition: { when: { ...bought, within: '50d' } }, result: ['u1', 'u2'] },
    { definition: { when: { ...bought, within: '50d', atLeast: 2 } }, result: [] },
  ),
  story(
    'what is deleted from the log is gone, the links of an anonymous id too',
    {
      events: [visit('anonymous:x', '2d'), identify('u1 anonymous:x', '1d'), visit('u2', '1d')],
      now: NOW,
      definition: { when: { performed: 'Visited' } },
      result: ['u1', 'u2'],
    },
    { events: [visit('anonymous:x', '2d'), visit('u2', '1d')], result: ['u2'] },
    { events: [], result: [] },
  ),
  story(
    'a late event moves somebody in at once, and out when its own time is over',
    { events: [], now: NOW, definition: recent, result: [] },
    { events: [order('u1', '29d', {}, { received: '0ms' })], result: ['u1'] },
    { now: NOW + 86_400_000, result: [] },
  ),
  story(
    'a merge moves the membership to the new id',
    { events: [order('old', '2d')], now: NOW, definition: recent, result: ['old'] },
    { events: [order('old', '2d'), alias('old', 'new', '1d')], result: ['new'] },
  ),
  story(
    'a merge can end a membership of never',
    {
      events: [visit('new', '9d'), order('old', '2d')],
      now: NOW,
      definition: { when: { not: bought } },
      result: ['new'],
    },
    { events: [visit('new', '9d'), order('old', '2d'), alias('old', 'new', '1d')], result: [] },
  ),
  story(
    'an earlier now asks what had been done by then, by the people as they are known now',
    {
      events: [order('anonymous:x', '20d'), identify('u1 anonymous:x', '10d')],
      now: at('15d'),
      definition: recent,
      result: ['u1'],
    },
    { now: at('21d'), result: [] },
  ),
];
