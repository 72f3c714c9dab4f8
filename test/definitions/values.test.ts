import fc from 'fast-check';
import t from 'tap';
import { compile } from '../../jobs/engines/definitions/compile.ts';
import { askedOf, type LiveDefinition } from '../../jobs/live/facts.ts';
import type { Condition } from '../../src/definition/conditions.ts';
import { type Activity, PROPERTY_OPERATORS, type TraitValue } from '../../src/definition/definition.ts';
import { OPERATOR_NAMES, OPERATORS, type Operands, type Test } from '../../src/definition/operators.ts';
import type { FieldPlace } from '../../src/definition/places.ts';
import { readable } from '../../src/store/events/readable.ts';
import { LiveModel } from '../live/helpers/rows.ts';
import { openEngines } from './helpers/engines.ts';
import { type LoggedEvent, NOW } from './helpers/event.ts';
import { membersOf, valuesOf } from './helpers/reference.ts';

/** Values asked about in all; `RUNS=50000` makes it longer. */
const RUNS = Number(process.env['RUNS'] ?? 600);
const PER_HISTORY = 20;
const SEED = Number(process.env['SEED'] ?? Date.now() % 2 ** 31);

const DAY = 86_400_000;

/** What clients may send at the edges of every type. */
const numbers = fc.oneof(
  fc.constantFrom(...[0, -0, 1, -1, 0.1, 0.2, 0.3, 1 / 3, 5, 1e-7, 123_456_789.123_456_79]),
  fc.constantFrom(...[2 ** 53, 2 ** 53 + 2, -(2 ** 53), 2 ** 63, 2 ** 64, -(2 ** 63), 1e15, 1e16, 1e20, 1e21, 1e22]),
  fc.constantFrom(...[1e100, -1e100, 1e308, -1e308, 1.7e308, Number.MAX_VALUE, -Number.MAX_VALUE]),
  fc.constantFrom(...[1.7e308, 1.7e308, -1.7e308, 1, 1e100, -1e100]),
  fc.constantFrom(...[5e-324, -5e-324, 1e-323, 4.4e-323, 2.225e-308, 2.2250738585072014e-308, 1e-300]),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.integer(),
);
const texts = fc.oneof(
  fc.constantFrom(
    '',
    ' ',
    '\0',
    'a\0b',
    '\ud800',
    'x\udfff',
    '😀',
    '\ufeffcem',
    '\u200b',
    '\u2028',
    "it's",
    '"',
    '\\',
    '%',
  ),
  fc.constantFrom('NaN', 'nan', 'Infinity', '-inf', 'null', 'true', '0', '-0', '1e999', '0x1F', '١', 'é', 'é'),
  fc.constantFrom('0000-00-00', '0000-01-01T00:00:00Z', '9999-12-31T23:59:60Z', '+12026-01-01T00:00:00.000Z'),
  fc.constantFrom(
    '-0001-01-01',
    '2026-02-30',
    '10000-01-01',
    'infinity',
    'now',
    'epoch',
    '24:00',
    '{}',
    '[1',
    '$.a',
    '$now',
  ),
  fc.string({ unit: 'binary', maxLength: 6 }),
  fc.string({ unit: 'grapheme', maxLength: 4 }),
);
const keys = fc.constantFrom(
  'p',
  'q',
  '',
  '0',
  '-1',
  '__proto__',
  'a.b',
  '/',
  '~',
  '$',
  '*',
  '"',
  '\0',
  'k\ud800',
  '😀',
);
const nested = (depth: number, inner: unknown): unknown =>
  depth === 0 ? inner : nested(depth - 1, depth % 2 === 0 ? [inner] : { p: inner });
const json: fc.Arbitrary<unknown> = fc.letrec<{ json: unknown }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    { weight: 4, arbitrary: numbers },
    { weight: 3, arbitrary: texts },
    { weight: 1, arbitrary: fc.constantFrom<unknown>(true, false, null) },
    { weight: 1, arbitrary: fc.array(tie('json'), { maxLength: 3 }) },
    { weight: 1, arbitrary: fc.dictionary(keys, tie('json'), { maxKeys: 3, noNullPrototype: true }) },
    { weight: 1, arbitrary: fc.tuple(fc.constantFrom(60, 400), numbers).map(([depth, inner]) => nested(depth, inner)) },
  ),
})).json;

const part = fc.record({ p: json, q: json }, { requiredKeys: [] });
const times = fc.constantFrom(
  NOW,
  NOW - 1,
  NOW - DAY,
  0,
  -1,
  Date.parse('0001-01-01T00:00:00Z'),
  Date.parse('1969-12-31T23:59:59.999Z'),
);
const event = fc.record({
  type: fc.constantFrom('track', 'track', 'identify'),
  userId: fc.constantFrom('a', 'b'),
  timestamp: times,
  properties: part,
  traits: part,
  context: part,
});
const histories = fc.array(event, { minLength: 1, maxLength: 8 }).map((events) =>
  events.map((each, index): LoggedEvent => {
    const said = { ...each, messageId: `m${index}`, anonymousId: null, previousId: null, receivedAt: NOW };
    const body = JSON.stringify({ ...said, event: each.type === 'track' ? 'Order' : null });
    // As the log keeps it.
    return JSON.parse(readable(body)) as LoggedEvent;
  }),
);

/** Text of a definition; `config check` refuses other characters. */
const plain = texts.filter((text) => text.isWellFormed() && !text.includes('\0'));
const scalar = fc.oneof(numbers, plain, fc.boolean());
const operands: { readonly [Form in keyof Operands]: fc.Arbitrary<Operands[Form]> } = {
  scalar,
  part: scalar.filter((value) => value !== ''),
  list: fc.array(scalar, { minLength: 1, maxLength: 3 }),
  ordered: fc.oneof(numbers, plain),
  flag: fc.boolean(),
  text: plain.filter((value) => value !== ''),
  instant: fc.constantFrom('2026-01-01T00:00:00.000Z', '0001-01-01T00:00:00.000Z', '9999-12-31T23:59:59.999Z'),
  span: fc.constantFrom(1, DAY, 3_000 * 365 * DAY),
};
const tests = fc.array(
  fc.oneof(
    ...OPERATOR_NAMES.map((operator) =>
      operands[OPERATORS[operator].takes].map((operand) => ({ operator, operand }) as Test),
    ),
  ),
  { minLength: 1, maxLength: 2 },
);
const path = fc.oneof(
  fc.constantFrom(['p'], ['q']),
  fc.tuple(fc.constant('p'), fc.constantFrom('p', '', '0', '-1', '__proto__', 'a.b', '/', '~', '$', '*', '"', '😀')),
);
const place: fc.Arbitrary<FieldPlace> = fc.record({ part: fc.constantFrom('properties', 'context', 'traits'), path });
const activity: fc.Arbitrary<Activity> = fc
  .record({
    kind: fc.constant('track' as const),
    names: fc.constantFrom(['Order'], ['Order', "it's"], null),
    until: fc.constantFrom(0, 0, 1),
    within: fc.constantFrom(null, null, DAY, 3_000 * 365 * DAY),
    since: fc.constantFrom(null, null, 0, Date.parse('0001-01-01T00:00:00Z'), Date.parse('9999-12-31T23:59:59.999Z')),
    where: fc.array(
      fc.tuple(place, tests).map(([where, all]) => ({ ...where, tests: all })),
      { maxLength: 1 },
    ),
  })
  .map((given) => ({ ...given, until: given.within === null ? 0 : given.until }));
const conditions: fc.Arbitrary<Condition> = fc.oneof(
  fc.record({ trait: path, tests }),
  activity.map((performed) => ({ performed, least: 1, most: null })),
);
const values: fc.Arbitrary<TraitValue> = fc.record({
  operator: fc.constantFrom(...PROPERTY_OPERATORS),
  activity,
  of: place,
});
/** Over all events, at the place that has most values. */
const simple: fc.Arbitrary<TraitValue> = fc.record({
  operator: fc.constantFrom(...PROPERTY_OPERATORS),
  activity: fc.constant({ kind: 'track' as const, names: ['Order'], within: null, until: 0, since: null, where: [] }),
  of: fc.record({ part: fc.constant('properties' as const), path: fc.constant(['p']) }),
});

t.test('no value of one person stops a definition, and both engines, live and the reference agree', async (t) => {
  t.comment(`seed ${SEED}`);
  const engines = await openEngines(t);
  let found = 0;
  const asked = fc.record({
    events: histories,
    whens: fc.array(conditions, { minLength: PER_HISTORY / 2, maxLength: PER_HISTORY / 2 }),
    traits: fc.array(fc.oneof(values, simple), { minLength: PER_HISTORY / 2, maxLength: PER_HISTORY / 2 }),
  });
  const property = fc.asyncProperty(asked, async ({ events, whens, traits }) => {
    const history = { events, now: NOW, audiences: new Map<string, Condition>() };
    const definitions = [
      ...whens.map((when, index): LiveDefinition => ({ key: `a${index}`, kind: 'audience', when })),
      ...traits.map((value, index): LiveDefinition => ({ key: `t${index}`, kind: 'trait', value })),
    ];
    const expected = [
      ...whens.map((when) => Object.fromEntries(membersOf(when, history).map((user) => [user, null]))),
      ...traits.map((value) => valuesOf(value, history)),
    ];
    const live = new LiveModel(askedOf(definitions, Number.POSITIVE_INFINITY));
    await live.advance(events, NOW);
    for (const [index, { key, kind }] of definitions.entries()) {
      const members = [...(live.members.get(key) ?? [])].map(([user, value]) => [
        user,
        kind === 'trait' ? value : null,
      ]);
      same(Object.fromEntries(members), expected[index], 'live');
      found += members.length;
    }
    for (const { type, fill, result } of engines) {
      await fill(events);
      for (const [index, definition] of definitions.entries()) {
        const sql = compile(definition, type, () => ({ sql: '' }));
        same(await result(definition.kind, sql, NOW), expected[index], type);
      }
    }
  });
  await fc.assert(property, { numRuns: Math.ceil(RUNS / PER_HISTORY), seed: SEED });
  t.ok(found > 0, `${found} members or values`);
});

function same(actual: unknown, expected: unknown, who: string): void {
  const [one, other] = [canonical(actual), canonical(expected)];
  if (one !== other) throw new Error(`${who} says ${one}, the reference ${other}`);
}

function canonical(value: unknown): string {
  return JSON.stringify(Object.entries(value as object).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
