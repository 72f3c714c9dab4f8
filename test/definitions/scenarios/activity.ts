import { NOW, order, page, track } from '../helpers/event.ts';
import { members } from '../helpers/scenario.ts';

const bought = { performed: 'Order Completed' };
const MILLISECOND = '1ms';

export const windows = [
  members('who did it once, ever, is in it', bought, [order('u1', '300d'), track('u2', 'Other', '1d')], ['u1']),
  members(
    'an event of the same name is only a track event',
    bought,
    [page('u1', '1d', {}), { ...page('u2', '1d'), event: 'Order Completed' }],
    [],
  ),
  members('names of events are compared letter by letter', bought, [track('u1', 'order completed', '1d')], []),
  members(
    'within counts what is newer',
    { ...bought, within: '30d' },
    [order('u1', '29d'), order('u2', '31d')],
    ['u1'],
  ),
  members('an event as old as the window no longer counts', { ...bought, within: '30d' }, [order('u1', '30d')], []),
  members(
    'a millisecond younger still counts',
    { ...bought, within: '1000 ms' },
    [order('u1', '999ms'), order('u2', '1000ms')],
    ['u1'],
  ),
  members(
    'a window may be said in words',
    { ...bought, within: '90 days' },
    [order('u1', '89d'), order('u2', '90d')],
    ['u1'],
  ),
  members('a day has 24 hours', { ...bought, within: '1 day' }, [order('u1', '23h'), order('u2', '24h')], ['u1']),
  members('a week has 7 days', { ...bought, within: '1 week' }, [order('u1', '6d'), order('u2', '7d')], ['u1']),
  members('the time of now counts', { ...bought, within: '1 minute' }, [order('u1', '0ms')], ['u1']),
  members('what is later than now does not count', bought, [order('u1', '2026-03-01T12:00:00.001Z')], []),
  members(
    'what is later than now does not make anybody known',
    { not: bought },
    [track('u1', 'Other', '2026-03-02T00:00:00Z'), track('u2', 'Other', MILLISECOND)],
    ['u2'],
  ),
  members(
    'since counts from that instant on',
    { ...bought, since: '2026-02-01' },
    [order('u1', '2026-02-01T00:00:00.000Z'), order('u2', '2026-01-31T23:59:59.999Z')],
    ['u1'],
  ),
  members(
    'since has a time and an offset',
    { ...bought, since: '2026-02-01T09:00:00+01:00' },
    [order('u1', '2026-02-01T08:00:00.000Z'), order('u2', '2026-02-01T07:59:59.999Z')],
    ['u1'],
  ),
  members(
    'since and within hold both',
    { ...bought, since: '2026-02-01', within: '7d' },
    [order('u1', '6d'), order('u2', '20d')],
    ['u1'],
  ),
  members(
    'an event that came late counts by when it happened',
    { ...bought, within: '7d' },
    [order('u1', '20d', {}, { received: '1d' }), order('u2', '6d', {}, { received: '1h' })],
    ['u2'],
  ),
  members(
    'a time later than its receipt is that of the receipt',
    { ...bought, within: '7d' },
    [order('u1', '2030-01-01', {}, { received: '3d' }), order('u2', '2030-01-01', {}, { received: '8d' })],
    ['u1'],
  ),
  members(
    'a day of receipt at the edge of the window is read',
    { ...bought, within: '12 hours' },
    [order('u1', '2026-03-01T00:00:00.001Z'), order('u2', '2026-03-01T00:00:00.000Z')],
    ['u1'],
  ),
];

const three = [
  order('u1', '1d'),
  order('u2', '1d'),
  order('u2', '2d'),
  order('u3', '1d'),
  order('u3', '2d'),
  order('u3', '3d'),
];
const four = [...three, track('u0', 'Other', '1d')];

export const counts = [
  members('at least so often', { ...bought, atLeast: 2 }, four, ['u2', 'u3']),
  members('exactly so often', { ...bought, exactly: 2 }, four, ['u2']),
  members('exactly never', { ...bought, exactly: 0 }, four, ['u0']),
  members('at most so often has those who never did', { ...bought, atMost: 2 }, four, ['u0', 'u1', 'u2']),
  members('at most never is never', { ...bought, atMost: 0 }, four, ['u0']),
  members('from so often to so often', { ...bought, atLeast: 2, atMost: 2 }, four, ['u2']),
  members('at least once to twice leaves out who never did', { ...bought, atLeast: 1, atMost: 2 }, four, ['u1', 'u2']),
  members(
    'counts are of what is in the window',
    { ...bought, atLeast: 2, within: '48 hours' },
    [...three, order('u4', '47h'), order('u4', '1h')],
    ['u4'],
  ),
  members('exactly so often within a window', { ...bought, exactly: 1, within: '36h' }, four, ['u1', 'u2', 'u3']),
  members(
    'at most so often within a window has those whose events are older',
    { ...bought, atMost: 1, within: '25h' },
    [order('u1', '30d'), order('u2', '1h'), order('u2', '2h')],
    ['u1'],
  ),
  members(
    'counts are of what passes the filters',
    { ...bought, atLeast: 2, where: { 'properties.total': { gte: 10 } } },
    [
      order('u1', '1d', { total: 10 }),
      order('u1', '2d', { total: 9 }),
      order('u2', '1d', { total: 10 }),
      order('u2', '2d', { total: 11 }),
    ],
    ['u2'],
  ),
];

/** For a filter: each value of `x` as the order of the user of that number, and who passes. */
const filtered = (name: string, tests: unknown, given: readonly unknown[], passing: readonly number[]) =>
  members(
    name,
    { ...bought, where: { 'properties.x': tests } },
    given.map((x, index) => order(`u${index}`, '1d', x === undefined ? {} : { x })),
    passing.map((index) => `u${index}`),
  );

export const filters = [
  filtered('text is equal letter by letter', 'pro', ['pro', 'Pro', 'pro ', 'prö', undefined], [0]),
  filtered('a bare value is short for is', { is: 'pro' }, ['pro', 'free'], [0]),
  filtered('a number is equal to a number', { is: 10 }, [10, 10.0, 10.5, '10', [10]], [0, 1]),
  filtered('text is not equal to a number', { is: '10' }, [10, '10'], [1]),
  filtered('true is neither text nor 1', { is: true }, [true, 'true', 1, false], [0]),
  filtered('false is not missing', { is: false }, [false, null, undefined, 0, ''], [0]),
  filtered(
    'isNot has what is missing, null or of another type',
    { isNot: 'pro' },
    ['pro', 'free', null, undefined, 5],
    [1, 2, 3, 4],
  ),
  filtered(
    'in has any of them, each with its type',
    { in: ['a', 5, true] },
    ['a', 5, true, '5', 'true', 'b', null],
    [0, 1, 2],
  ),
  filtered('greater than a number', { gt: 5 }, [5, 5.0000001, 6, -7], [1, 2]),
  filtered('text that looks like a number is not greater than one', { gt: 5 }, ['10', 10], [1]),
  filtered('greater or equal, less or equal', { gte: 5, lte: 6 }, [4.99, 5, 6, 6.01], [1, 2]),
  filtered('less than a number', { lt: 0 }, [-1, 0, 1, null, undefined, '-1'], [0]),
  filtered('large and small numbers', { gt: 1e20 }, [1e21, 1e20, 1e-7, 2e20], [0, 3]),
  filtered(
    'days as text',
    { gte: '2026-01-31', lt: '2026-02-02' },
    ['2026-01-30', '2026-01-31', '2026-02-01T10:00:00Z', '2026-02-02', 20260201],
    [1, 2],
  ),
  filtered('text in the order of its code points', { gt: 'Z' }, ['a', 'Z', 'A', 'é', '😀', ''], [0, 3, 4]),
  filtered('text beyond the first 65,536 code points comes last', { gt: '\uffee' }, ['😀', '\uff01', 'z'], [0]),
  filtered(
    'a part of the text',
    { contains: 'shirt' },
    ['t-shirt', 'Shirt', 'shirt', 'hat', ['t-shirt'], null],
    [0, 2],
  ),
  filtered('signs that patterns know are letters here', { contains: '%_.*' }, ['100%_.*', '100xxx', '%'], [0]),
  filtered('an item of a list', { contains: 'red' }, [['red', 'blue'], ['reddish'], [['red']], 'red hat', {}], [0, 3]),
  filtered('a number in a list', { contains: 5 }, [[1, 5], ['5'], 5, '5', []], [0]),
  filtered(
    'exists is not missing and not null',
    { exists: true },
    [0, '', false, [], {}, null, undefined],
    [0, 1, 2, 3, 4],
  ),
  filtered('exists: false is missing or null', { exists: false }, [0, '', null, undefined], [2, 3]),
  filtered('all operators of a filter hold', { isNot: 5, gt: 1, exists: true }, [5, 3, 1, undefined], [1]),
  members(
    'all filters hold',
    { ...bought, where: { 'properties.a': 1, 'properties.b': 2 } },
    [
      order('u1', '1d', { a: 1, b: 2 }),
      order('u2', '1d', { a: 1 }),
      order('u3', '1d', { a: 1 }),
      order('u3', '1d', { b: 2 }),
    ],
    ['u1'],
  ),
  members(
    'dots lead into objects',
    { ...bought, where: { 'properties.cart.total': 5 } },
    [
      order('u1', '1d', { cart: { total: 5 } }),
      order('u2', '1d', { 'cart.total': 5 }),
      order('u3', '1d', { cart: [{ total: 5 }] }),
      order('u4', '1d', { cart: 5 }),
    ],
    ['u1'],
  ),
  members(
    'a key with a dot stands in quotes',
    { ...bought, where: { 'properties."cart.total"': 5 } },
    [order('u1', '1d', { cart: { total: 5 } }), order('u2', '1d', { 'cart.total': 5 })],
    ['u2'],
  ),
  members(
    'a key that is a number is no place in a list',
    { ...bought, where: { 'properties.items.0': 'x' } },
    [order('u1', '1d', { items: ['x'] }), order('u2', '1d', { items: { 0: 'x' } })],
    ['u2'],
  ),
  members(
    'keys may be of any letters',
    { ...bought, where: { 'properties.prêt à/porter~1': 5 } },
    [order('u1', '1d', { 'prêt à/porter~1': 5 }), order('u2', '1d', { 'prêt à': { 'porter~1': 5 } })],
    ['u1'],
  ),
  members(
    'quotes and SQL are text',
    { performed: `O'Brien"; DROP TABLE events --`, where: { [String.raw`properties."a\"b'c"`]: `'); --` } },
    [track('u1', `O'Brien"; DROP TABLE events --`, '1d', { [`a"b'c`]: `'); --` }), track('u2', `O'Brien`, '1d', {})],
    ['u1'],
  ),
  members(
    '$now in a text is text',
    { ...bought, where: { 'properties.x': '$now', 'properties.$now': 1 } },
    [order('u1', '1d', { x: '$now', $now: 1 }), order('u2', '1d', { x: new Date(NOW).toISOString(), $now: 1 })],
    ['u1'],
  ),
  members(
    'backslashes are letters',
    { ...bought, where: { 'properties.x': String.raw`\'; $$a$$ E'\n` } },
    [order('u1', '1d', { x: String.raw`\'; $$a$$ E'\n` }), order('u2', '1d', { x: `'` })],
    ['u1'],
  ),
  members(
    'a filter on the context',
    { ...bought, where: { 'context.device.type': 'ios' } },
    [
      order('u1', '1d', {}, { context: { device: { type: 'ios' } } }),
      order('u2', '1d', { device: { type: 'ios' } }),
      order('u3', '1d', {}, { context: null }),
    ],
    ['u1'],
  ),
  members(
    'a filter on the traits that the event has itself',
    { ...bought, where: { 'traits.plan': 'pro' } },
    [order('u1', '1d', {}, { traits: { plan: 'pro' } }), order('u2', '1d', { plan: 'pro' })],
    ['u1'],
  ),
  members(
    'an event without properties has none',
    { ...bought, where: { 'properties.x': { exists: false } } },
    [order('u1', '1d', {}, { properties: null }), order('u2', '1d', { x: 1 })],
    ['u1'],
  ),
];
