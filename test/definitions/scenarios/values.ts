import { alias, identify, order } from '../helpers/event.ts';
import { values } from '../helpers/scenario.ts';

const total = (operator: string, rest: object = {}) => ({ [operator]: 'Order Completed', of: 'properties.x', ...rest });
/** Orders of `u1`, oldest first, each a day apart. */
const orders = (...given: readonly unknown[]) =>
  given.map((x, index) => order('u1', `${given.length - index}d`, x === undefined ? {} : { x }));

/** One order of somebody else. */
const other = [order('u2', '1d', { x: 7 })];
const longTexts = Array.from({ length: 16 }, (_, index) => `${index}`.padEnd(20_000, 'x'));

export const traitValues = [
  values('count', { count: 'Order Completed' }, [...orders(1, 2), order('u2', '1d')], { u1: 2, u2: 1 }),
  values(
    'count within a window has nobody without an event',
    { count: 'Order Completed', within: '36h' },
    [...orders(1, 2, 3), order('u2', '9d')],
    { u1: 1 },
  ),
  values('count where', { count: 'Order Completed', where: { 'properties.x': { gt: 1 } } }, orders(1, 2, 3), { u1: 2 }),
  values('sum of numbers, and of nothing else', total('sum'), orders(1, 2.5, '10', null, undefined, true, [4]), {
    u1: 3.5,
  }),
  values('sum of decimals', total('sum'), orders(0.1, 0.2, 0.3), { u1: 0.6 }),
  values('sum of any order and size', total('sum'), orders(1, 1e100, 1, -1e100), { u1: 2 }),
  values('sum of decimals that cancel out', total('sum'), orders(0.1, 0.2, -0.3), { u1: 0 }),
  values('sum beyond a double is no value, for that person', total('sum'), [...orders(1.7e308, 1.7e308), ...other], {
    u2: 7,
  }),
  values('average beyond a double is none', total('average'), [...orders(1.7e308, 1.7e308), ...other], { u2: 7 }),
  values('average that rounds to 0', total('average'), [...orders(5e-324, 0, 0), ...other], { u1: 0, u2: 7 }),
  values('average of the smallest', total('average'), [...orders(5e-324, 0), ...other], { u1: 0, u2: 7 }),
  values('max that rounds beyond a double', total('max'), [...orders(Number.MAX_VALUE), ...other], { u2: 7 }),
  values('average that ends in half of a digit', total('average'), orders(1e15, 1), { u1: 500000000000000 }),
  values('average that ends in half of an odd digit', total('average'), orders(1e15, 3), { u1: 500000000000002 }),
  values('min of fifteen digits', total('min'), orders(1 / 3), { u1: 0.333333333333333 }),
  values('list of more than 250,000 characters', total('uniqueList'), [...orders(...longTexts), ...other], { u2: [7] }),
  values('sum of none is no value', total('sum'), orders('10'), {}),
  values('average counts what has a number', total('average'), orders(1, 2, undefined, 6), { u1: 3 }),
  values('min and max: min', total('min'), orders(3, -1, 'a', 2), { u1: -1 }),
  values('min and max: max', total('max'), orders(3, 10, '11', 2), { u1: 10 }),
  values('most frequent', total('mostFrequent'), orders('a', 'b', 'b', 'c'), { u1: 'b' }),
  values(
    'most frequent: of several the least, numbers before text',
    total('mostFrequent'),
    orders('b', 'a', 10, 9, 10, 9),
    { u1: 9 },
  ),
  values('most frequent: text in the order of its code points', total('mostFrequent'), orders('é', 'z', 'Z'), {
    u1: 'Z',
  }),
  values('first', total('first'), orders(undefined, null, 'x', 'y'), { u1: 'x' }),
  values('last', total('last'), orders('x', false, { a: 1 }, ['z']), { u1: false }),
  values(
    'last by when it happened',
    total('last'),
    [order('u1', '1d', { x: 'new' }), order('u1', '5d', { x: 'late' }, { received: '1h' })],
    { u1: 'new' },
  ),
  values('count of different values', total('uniqueCount'), orders('a', 'a', 'A', 1, '1', true, null), { u1: 5 }),
  values('list of different values in order', total('uniqueList'), orders('b', 'a', 10, 9, true, 'b', null, [1]), {
    u1: [true, 9, 10, 'a', 'b'],
  }),
  values(
    'a list has at most 1,000 values',
    { uniqueCount: 'Order Completed', of: 'properties.x' },
    Array.from({ length: 1_100 }, (_, x) => order('u1', '1d', { x })),
    { u1: 1_100 },
  ),
  values(
    'a list has at most 1,000 values: the least',
    total('uniqueList'),
    Array.from({ length: 1_100 }, (_, x) => order('u1', '1d', { x })),
    { u1: Array.from({ length: 1_000 }, (_, x) => x) },
  ),
  values(
    'values over all ids of a person',
    total('sum'),
    [
      order('anonymous:x', '9d', { x: 1 }),
      identify('old anonymous:x', '8d'),
      order('old', '7d', { x: 2 }),
      alias('old', 'new', '6d'),
      order('new', '5d', { x: 4 }),
    ],
    { new: 7 },
  ),
  values('nobody without a user id', total('sum'), [order('anonymous:x', '9d', { x: 1 })], {}),
  values(
    'of the context',
    { last: 'Order Completed', of: 'context.locale' },
    [order('u1', '1d', {}, { context: { locale: 'de' } })],
    { u1: 'de' },
  ),
  values('text with quotes', total('last'), orders(`a"b'c\\ü😀`), { u1: `a"b'c\\ü😀` }),
];
