import { identify, NOW, order, page, track } from '../helpers/event.ts';
import { members, story } from '../helpers/scenario.ts';

const cart = { performed: 'Cart Updated' };
const bought = { performed: 'Order Completed' };
const updated = (who: string, when: string, properties = {}) => track(who, 'Cart Updated', when, properties);
const abandoned = { sequence: [cart, { not: bought, after: { atMost: '1 hour' } }] };
const HOUR = 3_600_000;

export const sequences = [
  members('two steps in order', { sequence: [cart, bought] }, [updated('a', '2d'), order('a', '1d')], ['a']),
  members('not in the other order', { sequence: [cart, bought] }, [updated('a', '1d'), order('a', '2d')], []),
  members('equal times count', { sequence: [cart, bought] }, [updated('a', '1d'), order('a', '1d')], ['a']),
  members(
    'a message is one step',
    { sequence: [bought, bought] },
    [order('a', '1d'), order('b', '2d'), order('b', '2d')],
    ['b'],
  ),
  members(
    'any choice of messages counts, not the first one',
    { sequence: [cart, { ...bought, after: { atMost: '1h' } }] },
    [updated('a', '3d'), updated('a', '90m'), order('a', '1h')],
    ['a'],
  ),
  members(
    'the ends of a span are included',
    { sequence: [cart, { ...bought, after: { atLeast: '1h', atMost: '2h' } }] },
    [
      ...[updated('a', '3h'), order('a', '2h'), updated('b', '3h'), order('b', '1h')],
      ...[updated('c', '10800001ms'), order('c', '1h'), updated('d', '3h'), order('d', '7200001ms')],
    ],
    ['a', 'b'],
  ),
  members(
    'the window is that of the first step',
    { sequence: [cart, bought], within: '2d' },
    [updated('a', '3d'), order('a', '1d'), updated('b', '36h'), order('b', '1d'), updated('c', '2d'), order('c', '1d')],
    ['b'],
  ),
  members(
    'of three steps, each may be of a page, of several names and filtered',
    {
      sequence: [
        { viewed: ['Pricing', 'Plans'] },
        { performed: ['Cart Updated', 'Cart Filled'], where: { 'properties.total': { gt: 10 } } },
        { performed: { any: true }, after: { atLeast: '1ms' } },
      ],
    },
    [
      { ...page('a', '3d'), event: 'Plans' },
      updated('a', '2d', { total: 11 }),
      track('a', 'Anything', '1d'),
      { ...page('b', '3d'), event: 'Plans' },
      updated('b', '2d', { total: 9 }),
      track('b', 'Anything', '1d'),
    ],
    ['a'],
  ),
  story(
    'an abandoned cart, from the moment on at which the hour has passed',
    { events: [updated('a', '1h')], now: NOW - 1, definition: { when: abandoned }, result: [] },
    { now: NOW, result: ['a'] },
    { now: NOW + 100 * HOUR },
    { events: [updated('a', '1h'), order('a', '59m')], result: [] },
    { events: [updated('a', '1h'), order('a', '0ms')], result: [] },
    { events: [updated('a', '1h'), { ...order('a', '0ms'), timestamp: NOW + 1 }], result: ['a'] },
    { events: [updated('a', '1h'), order('a', '1h')], result: ['a'] },
    { events: [updated('a', '1h'), order('a', '30m'), updated('a', '10m')], result: ['a'] },
    { now: NOW, result: [] },
  ),
];

export const firsts = [
  members(
    'the first time lies in the window',
    { ...bought, firstTime: true, within: '7d' },
    [order('a', '3d'), order('b', '30d'), order('b', '3d'), order('c', '7d')],
    ['a'],
  ),
  members(
    'a first time under the same filter',
    { ...bought, firstTime: true, within: '7d', where: { 'properties.total': { gt: 10 } } },
    [order('a', '30d', { total: 5 }), order('a', '3d', { total: 11 })],
    ['a'],
  ),
  members(
    'a first time is not that of a clock which was never set',
    { ...bought, firstTime: true, within: '7d' },
    [order('a', '1970-01-01T00:00:00Z', {}, { received: '3d' })],
    ['a'],
  ),
  members(
    'between counts until the later end, included',
    { ...bought, between: ['30d', '7d'] },
    [order('a', '7d'), order('b', '8d'), order('c', '30d'), order('d', '604799999ms')],
    ['a', 'b'],
  ),
];

const due = (operators: object) => ({ trait: 'due', ...operators });

export const times = [
  members(
    'before and after exclude the time itself',
    due({ after: '2026-02-01', before: '2026-02-03' }),
    [
      ...[identify('a', '1d', { due: '2026-02-01' }), identify('b', '1d', { due: '2026-02-01T00:00:00.001Z' })],
      ...[identify('c', '1d', { due: '2026-02-03T01:00+01:00' }), identify('d', '1d', { due: '2026-02-30' })],
      ...[identify('e', '1d', { due: 1_769_990_400_000 }), identify('f', '1d', { due: '2026-02-02 23:59:59,9999' })],
    ],
    ['b', 'f'],
  ),
  members(
    'withinLast ends now and excludes its far end',
    due({ withinLast: '1d' }),
    [
      ...[
        identify('a', '9d', { due: '2026-03-01T12:00:00Z' }),
        identify('b', '9d', { due: '2026-03-01T12:00:00.001Z' }),
      ],
      ...[
        identify('c', '9d', { due: '2026-02-28T12:00:00Z' }),
        identify('d', '9d', { due: '2026-02-28T12:00:00.001Z' }),
      ],
    ],
    ['a', 'd'],
  ),
  members(
    'withinNext begins now and excludes its far end',
    due({ withinNext: '1d' }),
    [
      ...[
        identify('a', '9d', { due: '2026-03-01T12:00:00Z' }),
        identify('b', '9d', { due: '2026-03-01T11:59:59.999Z' }),
      ],
      ...[
        identify('c', '9d', { due: '2026-03-02T12:00:00Z' }),
        identify('d', '9d', { due: '2026-03-02T11:59:59.999Z' }),
      ],
    ],
    ['a', 'd'],
  ),
  members(
    'a trait or a property in place of a constant',
    {
      ...bought,
      where: {
        'properties.total': { gte: { trait: 'limit.day' } },
        'properties.from': { isNot: { property: 'properties.to' } },
      },
    },
    [
      ...[identify('a', '1d', { limit: { day: 10 } }), order('a', '2d', { total: 10, from: 'x', to: 'y' })],
      ...[identify('b', '1d', { limit: { day: 11 } }), order('b', '2d', { total: 10, from: 'x', to: 'y' })],
      ...[order('c', '2d', { total: 10, from: 'x', to: 'y' }), identify('d', '1d', { limit: { day: 1 } })],
      order('d', '2d', { total: 10, from: 'x', to: 'x' }),
    ],
    ['a'],
  ),
  members(
    'text operators',
    { trait: 'mail', startsWith: 'a', endsWith: '.org', matches: 'a*@?.org', notContains: 'spam', notIn: ['a@b.org'] },
    [
      ...[identify('a', '1d', { mail: 'ann@x.org' }), identify('b', '1d', { mail: 'ann@xy.org' })],
      ...[identify('c', '1d', { mail: 'aspam@x.org' }), identify('d', '1d', { mail: 'a@b.org' })],
    ],
    ['a'],
  ),
];
