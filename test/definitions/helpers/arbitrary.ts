import fc from 'fast-check';
import type { Condition, ConditionName } from '../../../src/definition/conditions.ts';
import {
  ACTIVITY_KINDS,
  type Activity,
  type PlaceFilter,
  PROPERTY_OPERATORS,
  type TraitValue,
} from '../../../src/definition/definition.ts';
import { OPERATOR_NAMES, OPERATORS, type Operands, REFERRING, type Test } from '../../../src/definition/operators.ts';
import type { FieldPlace, KeyPath } from '../../../src/definition/places.ts';
import { type LoggedEvent, NOW } from './event.ts';

/** Few of each, so that they meet: the same names, ids, values and edges of windows again and again. */
const DAY = 86_400_000;
const users = fc.constantFrom('a', 'b', 'c', 'd');
const anonymous = fc.constantFrom('x', 'y', 'a');
const names = fc.constantFrom('Order', 'order', "it's");
const keys = fc.constantFrom('p', 'q', "k'", 'c.d', '0');
const texts = [
  '1',
  '10',
  'é',
  '😀',
  '',
  'ab',
  '2026-02-28T12:00:00Z',
  '2026-03-01T14:00:00+02:00',
  '2026-02-30',
  '2026-02-27',
];
const scalar = fc.constantFrom<string | number | boolean>(...texts, 0, 1, 1.5, 10, -3, 1e21, true, false);
const days = fc.integer({ min: -1, max: 6 });
const windows = fc.constantFrom(null, DAY, 2 * DAY, 3 * DAY, 5 * DAY, 1);
/** Whole days, and milliseconds around them. */
const instants = fc.tuple(days, fc.constantFrom(-1, 0, 0, 0, 1)).map(([back, shift]) => NOW - back * DAY + shift);

const json: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 4, arbitrary: scalar },
  fc.constant(null),
  fc.array(scalar, { maxLength: 3 }),
  fc.dictionary(keys, scalar, { maxKeys: 2, noNullPrototype: true }),
);
const part = fc.option(fc.dictionary(keys, json, { maxKeys: 3, noNullPrototype: true }));

const event: fc.Arbitrary<Omit<LoggedEvent, 'messageId'>> = fc
  .record({
    type: fc.constantFrom('track', 'track', 'track', 'identify', 'identify', 'alias', 'page', 'screen', 'group'),
    name: names,
    userId: fc.option(users),
    anonymousId: fc.option(anonymous),
    previousId: fc.oneof(users, anonymous),
    timestamp: instants,
    receivedAt: instants,
    properties: part,
    traits: part,
    context: part,
  })
  .filter(({ type, userId, anonymousId }) => userId !== null || (anonymousId !== null && type !== 'alias'))
  .map(({ name, type, previousId, timestamp, receivedAt, ...rest }) => ({
    ...rest,
    type,
    event: type === 'track' || type === 'page' || type === 'screen' ? name : null,
    previousId: type === 'alias' ? previousId : null,
    timestamp: Math.min(timestamp, receivedAt),
    receivedAt,
  }));

export const histories: fc.Arbitrary<readonly LoggedEvent[]> = fc.array(event, { maxLength: 40 }).chain((events) =>
  fc
    .shuffledSubarray(
      events.map((_, index) => `m${String(index).padStart(3, '0')}`),
      { minLength: events.length },
    )
    .map((ids) => events.map((each, index) => ({ ...each, messageId: ids[index] ?? '' }))),
);

/** Operands of each form. So every operator is asked for. */
const operands: { readonly [Form in keyof Operands]: fc.Arbitrary<Operands[Form]> } = {
  scalar,
  part: scalar.filter((value) => value !== ''),
  list: fc.array(scalar, { minLength: 1, maxLength: 3 }),
  ordered: scalar.filter((value) => typeof value !== 'boolean'),
  flag: fc.boolean(),
  text: fc.constantFrom('1', 'é', 'b', '*', '?b', 'a*', '*%', '_'),
  instant: fc.constantFrom(NOW, NOW - DAY, NOW - 2 * DAY).map((at) => new Date(at).toISOString()),
  span: fc.constantFrom(1, DAY, 2 * DAY),
};
const path: fc.Arbitrary<KeyPath> = fc.array(keys, { minLength: 1, maxLength: 2 });
/** Also of references, to a trait or, in events, to a property. */
const testsWith = (...references: fc.Arbitrary<object>[]) => {
  const test = fc.oneof(
    ...OPERATOR_NAMES.map((operator) => {
      const { takes } = OPERATORS[operator];
      const isReferring = operator !== 'matches' && REFERRING.some((form) => form === takes);
      const operand: fc.Arbitrary<unknown> = isReferring
        ? fc.oneof({ weight: 3, arbitrary: operands[takes] }, ...references)
        : operands[takes];
      return operand.map((operand) => ({ operator, operand }) as Test);
    }),
  );
  return fc.array(test, { minLength: 1, maxLength: 2 });
};
const aTrait = fc.record({ trait: path });
const tests = testsWith(aTrait);
const place: fc.Arbitrary<FieldPlace> = fc.record({
  part: fc.constantFrom('properties' as const, 'properties' as const, 'context' as const, 'traits' as const),
  path,
});
const eventTests = testsWith(aTrait, fc.record({ property: place }));
const filter: fc.Arbitrary<PlaceFilter> = fc.tuple(place, eventTests).map(([where, all]) => ({ ...where, tests: all }));

const someNames = fc.oneof(
  { weight: 4, arbitrary: names.map((name) => [name]) },
  fc.constant(['Order', "it's"]),
  fc.constant(null),
);
const activity: fc.Arbitrary<Activity> = fc
  .record({
    kind: fc.constantFrom(ACTIVITY_KINDS[0], ACTIVITY_KINDS[0], ...ACTIVITY_KINDS),
    names: someNames,
    within: windows,
    isBetween: fc.boolean(),
    since: fc.option(instants, { freq: 4 }),
    where: fc.array(filter, { maxLength: 1 }),
  })
  .map(({ isBetween, ...rest }) => {
    const until = isBetween && rest.within !== null && rest.within > DAY ? DAY : 0;
    return { ...rest, until };
  });

const spans = fc.constantFrom(0, 1, DAY - 1, DAY, 2 * DAY);
const stepActivity = fc.record({
  kind: fc.constantFrom(ACTIVITY_KINDS[0], ACTIVITY_KINDS[0], ACTIVITY_KINDS[0], ...ACTIVITY_KINDS),
  names: someNames,
  where: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, fc.array(filter, { maxLength: 1 })),
});
/** The window is that of the first step. No other can be earlier. */
const sequence: fc.Arbitrary<Condition> = fc
  .record({
    window: activity,
    steps: fc.array(fc.record({ activity: stepActivity, atLeast: spans, more: fc.option(spans) }), {
      minLength: 1,
      maxLength: 4,
    }),
    not: fc.option(fc.record({ activity: stepActivity, atMost: spans.filter((span) => span > 0) })),
  })
  .filter(({ steps, not }) => steps.length + Number(not !== null) > 1)
  .map(({ window: { within, until, since }, steps, not }) => {
    const later = { within, until: 0, since };
    return {
      sequence: {
        steps: steps.map(({ activity, atLeast, more }, place) =>
          place === 0
            ? { activity: { ...activity, within, until, since }, atLeast: 0, atMost: null }
            : { activity: { ...activity, ...later }, atLeast, atMost: more === null ? null : atLeast + more },
        ),
        not: not && { activity: { ...not.activity, ...later }, atMost: not.atMost },
      },
    };
  });

const firstTime: fc.Arbitrary<Condition> = activity.map((firstTime) => ({ firstTime }));
const split: fc.Arbitrary<Condition> = fc
  .record({ name: fc.constantFrom('s', "it's"), from: fc.constantFrom(0, 2_500), to: fc.constantFrom(5_000, 10_000) })
  .map((split) => ({ split }));

const performed = fc
  .record({
    performed: activity,
    least: fc.integer({ min: 0, max: 3 }),
    more: fc.option(fc.integer({ min: 0, max: 2 })),
  })
  .map(({ least, more, ...rest }) => ({
    ...rest,
    least: more === null ? Math.max(1, least) : least,
    most: more === null ? null : least + more,
  }));

/** The values of a computed trait with two columns that conditions may name, by user. */
export const SCORE = { key: 'score', columns: ['score', 'level'] } as const;

export type Commit = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

export const commits: fc.Arbitrary<Commit> = fc.dictionary(
  fc.constantFrom('a', 'b', 'c', 'd', 'outside'),
  fc.record(
    { score: fc.oneof(scalar, fc.constant(null), fc.array(scalar, { maxLength: 2 })), level: scalar },
    { noNullPrototype: true },
  ),
  { maxKeys: 4, noNullPrototype: true },
);

export const valueDefinitions: fc.Arbitrary<TraitValue> = fc.oneof(
  fc.record({ operator: fc.constant('count' as const), activity }),
  fc.record({ operator: fc.constantFrom(...PROPERTY_OPERATORS), activity, of: place }),
);

const computed: fc.Arbitrary<Condition> = fc.record({
  computed: fc.oneof(
    fc.record({ key: fc.constant(SCORE.key), column: fc.constantFrom(...SCORE.columns) }),
    valueDefinitions.map((value) => ({ key: 'x', column: 'x', live: { value, allowPlaceholders: false } })),
  ),
  tests,
});

/** Names of the audiences that a condition may name, which are simple ones. */
export const AUDIENCES = ['listed', 'short'] as const;

export const conditions: fc.Arbitrary<Condition> = fc.letrec<{ condition: Condition }>((tie) => {
  const several = fc.array(tie('condition'), { minLength: 1, maxLength: 3 });
  const each: { readonly [Name in ConditionName]: fc.WeightedArbitrary<Condition> } = {
    performed: { weight: 4, arbitrary: performed },
    firstTime: { weight: 2, arbitrary: firstTime },
    sequence: { weight: 4, arbitrary: sequence },
    split: { weight: 1, arbitrary: split },
    trait: { weight: 2, arbitrary: fc.record({ trait: path, tests }) },
    computed: { weight: 2, arbitrary: computed },
    inAudience: { weight: 1, arbitrary: fc.record({ inAudience: fc.constantFrom(...AUDIENCES) }) },
    all: { weight: 2, arbitrary: fc.record({ all: several }) },
    any: { weight: 2, arbitrary: fc.record({ any: several }) },
    not: { weight: 2, arbitrary: fc.record({ not: tie('condition') }) },
  };
  return { condition: fc.oneof({ maxDepth: 3, withCrossShrink: true }, ...Object.values(each)) };
}).condition;

/** Of one that names no other, and so makes no circle. */
export const shortAudience: fc.Arbitrary<Condition> = fc.oneof(
  performed,
  performed.map((not) => ({ not })),
);

export const moments = instants;
