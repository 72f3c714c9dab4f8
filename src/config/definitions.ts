import * as z from 'zod';
import { BUCKETS, type Condition, type ConditionOf, countOf, KIND_KEYS } from '../definition/conditions.ts';
import {
  ACTIVITY_KINDS,
  type Activity,
  type PlaceFilter,
  PROPERTY_OPERATORS,
  type Sequence,
  type SequenceStep,
  type TraitValue,
} from '../definition/definition.ts';
import { referenceOf, type Test } from '../definition/operators.ts';
import { activityNames, readPath, readPlace, testShape, testsOf, where, windowShape } from './definition-parts.ts';
import { duration, flag, positive, text, whole } from './formats.ts';
import { section } from './section.ts';

const activityShape = { ...windowShape, where: where.optional() };

type Refuse = (fault: { readonly path: (string | number)[]; readonly message: string }) => void;

/** The syntax of a condition: its key, keys that may accompany it, and the condition that they make. */
interface Written<Keys extends z.core.$ZodShape, Made> {
  readonly keys: Keys;
  make(given: z.output<z.ZodObject<Keys>>, refuse: Refuse): Made | null;
}

const written = <Keys extends z.core.$ZodShape, Made extends Condition>(given: Written<Keys, Made>) => given;

const conditions = z.lazy(() => z.array(condition).min(1, 'needs at least one condition')).optional();

const countShape = {
  atLeast: whole(1).optional(),
  exactly: whole(0).optional(),
  atMost: whole(0).optional().describe('Never counts, too'),
};

/** The syntax for activity of one kind of message. */
function did(kind: Activity['kind'], says: string) {
  return {
    keys: {
      [KIND_KEYS[kind]]: activityNames.optional().describe(says),
      ...countShape,
      firstTime: flag.optional().describe('The first time of all lies in the window'),
      ...activityShape,
    } as z.core.$ZodShape,
    make(read: Readonly<Record<string, unknown>>, refuse: Refuse): Condition | null {
      const given = read as z.output<z.ZodObject<typeof didShape>>;
      const activity = activityOf(kind, read[KIND_KEYS[kind]] as readonly string[] | null, given, refuse);
      if (activity === null) return null;
      if (given.firstTime === true) return firstTime(activity, given, refuse);
      const { exactly, atLeast, atMost } = given;
      if (exactly !== undefined) {
        const other = atLeast === undefined ? 'atMost' : 'atLeast';
        if (given[other] === undefined) return { performed: activity, least: exactly, most: exactly };
        refuse({ path: [other], message: 'cannot stand beside exactly: give one of the two' });
        return null;
      }
      // On its own, atMost includes people who never did it.
      const least = atLeast ?? (atMost === undefined ? 1 : 0);
      if (atMost === undefined || least <= atMost) return { performed: activity, least, most: atMost ?? null };
      refuse({ path: ['atMost'], message: 'is less than atLeast: nobody could be in it' });
      return null;
    },
  };
}

const didShape = { ...countShape, firstTime: flag.optional(), ...activityShape };

function firstTime(
  activity: Activity,
  given: Readonly<Record<string, unknown>>,
  refuse: Refuse,
): ConditionOf<'firstTime'> | null {
  const count = Object.keys(countShape).find((key) => given[key] !== undefined);
  if (count !== undefined)
    refuse({ path: [count], message: 'cannot stand beside firstTime, which asks for the first time only' });
  const isOpen = activity.within === null && activity.since === null;
  if (isOpen) refuse({ path: ['firstTime'], message: 'needs a window: within, between or since' });
  return count !== undefined || isOpen ? null : { firstTime: activity };
}

const trait = written({
  keys: {
    trait: text.optional().describe('The trait of this name, as the latest identify that has it says'),
    ...testShape,
  },
  make(given, refuse): ConditionOf<'trait'> | null {
    const path = readPath(String(given['trait']));
    if ('fault' in path) refuse({ path: ['trait'], message: path.fault });
    const tests = testsOfValue('trait', given, refuse);
    return 'fault' in path || tests === null ? null : { trait: path.path, tests };
  },
});

const computed = written({
  keys: {
    computed: text.optional().describe('The computed trait of this key, as last committed'),
    column: text.optional().describe('Its column, or that of an audience, in `with`'),
    ...testShape,
  },
  make(given, refuse): ConditionOf<'computed'> | null {
    const key = String(given['computed']);
    const tests = testsOfValue('computed', given, refuse);
    return tests && { computed: { key, column: String(given['column'] ?? key) }, tests };
  },
});

function testsOfValue(
  name: 'trait' | 'computed',
  given: Readonly<Record<string, unknown>>,
  refuse: Refuse,
): readonly Test[] | null {
  const tests = testsOf(given);
  if (tests.length === 0) refuse({ path: [name], message: 'needs an operator, such as is: pro or exists: true' });
  const stray = tests.find((test) => 'property' in (referenceOf(test) ?? {}));
  if (stray) refuse({ path: [stray.operator], message: 'cannot be a property, since a trait has no event' });
  return tests.length === 0 || stray ? null : tests;
}

/** The most steps of a sequence. Each is a part of its SQL. */
const MOST_STEPS = 10;

const span = positive(duration, 'must be longer than nothing');
const after = section({
  atLeast: span.optional().describe('At least this long after the step before'),
  atMost: span.optional().describe('At most this long after the step before'),
}).refine(
  ({ atLeast = 0, atMost = Number.POSITIVE_INFINITY }) => atLeast <= atMost,
  'has an atLeast that is longer than its atMost',
);

const stepActivity = {
  ...Object.fromEntries(ACTIVITY_KINDS.map((kind) => [KIND_KEYS[kind], activityNames.optional()])),
  where: where.optional(),
} as z.core.$ZodShape;

const WINDOW_KEYS = ['within', 'between', 'since'];
const COUNT_KEYS = [...Object.keys(countShape), 'firstTime'];

/** Says what a step cannot have, and where it belongs. */
function elsewhere(key: string): string | undefined {
  if (COUNT_KEYS.includes(key)) return 'does not belong to a step: a step is one event';
  return WINDOW_KEYS.includes(key)
    ? 'does not belong to a step: put it beside sequence, or use after for the time since the step before'
    : undefined;
}

const step = section(
  {
    ...stepActivity,
    not: section(stepActivity, elsewhere).optional().describe('The last step: no such event comes'),
    after: after.optional().describe('The time since the step before'),
  },
  elsewhere,
);

const sequence = written({
  keys: {
    sequence: z
      .array(step)
      .min(2, 'needs at least two steps')
      .max(MOST_STEPS, `has more than ${MOST_STEPS} steps`)
      .optional()
      .describe('Did these one after another'),
    ...windowShape,
  },
  make(given, refuse): ConditionOf<'sequence'> | null {
    let isRefused = false;
    const refuseAt = (index: number, key: string | null, message: string) => {
      isRefused = true;
      refuse({ path: ['sequence', index, ...(key === null ? [] : [key])], message });
    };
    const window = { within: given.within, between: given.between, since: given.since };
    const steps: SequenceStep[] = [];
    let not: Sequence['not'] = null;
    for (const [index, each] of (given.sequence ?? []).entries()) {
      const { not: absent, after = {} } = each as z.output<typeof step>;
      const said = (absent ?? each) as Readonly<Record<string, unknown>>;
      const kinds = ACTIVITY_KINDS.filter((kind) => said[KIND_KEYS[kind]] !== undefined);
      const own = each as Readonly<Record<string, unknown>>;
      const stray = ACTIVITY_KINDS.find((kind) => absent && own[KIND_KEYS[kind]] !== undefined);
      const [kind] = kinds;
      if (kind === undefined || kinds.length > 1 || stray) {
        refuseAt(index, absent ? 'not' : null, `needs one of ${Object.values(KIND_KEYS).join(', ')}`);
        continue;
      }
      // The window is that of the first step. No other can be earlier.
      const times =
        index === 0 ? window : { ...window, within: window.within ?? window.between?.[0], between: undefined };
      const names = said[KIND_KEYS[kind]] as readonly string[] | null;
      const filters = { where: said['where'] as readonly PlaceFilter[] | undefined };
      const activity = activityOf(kind, names, { ...times, ...filters }, index === 0 ? refuse : () => {});
      if (activity === null) {
        isRefused = true;
      } else if (absent) {
        if (index < (given.sequence ?? []).length - 1 || index === 0) refuseAt(index, 'not', 'must be the last step');
        if (after.atLeast !== undefined)
          refuseAt(index, 'after', 'of not has atMost only: for how long no such event comes');
        if (after.atMost === undefined) refuseAt(index, 'not', 'needs after.atMost: for how long no such event comes');
        not = { activity, atMost: after.atMost ?? 0 };
      } else {
        if (index === 0 && Object.keys(after).length > 0) refuseAt(index, 'after', 'has no step before it');
        steps.push({ activity, atLeast: after.atLeast ?? 0, atMost: after.atMost ?? null });
      }
    }
    return isRefused ? null : { sequence: { steps, not } };
  },
});

const percent = z
  .number('must be a number from 0 to 100')
  .min(0, 'must be a number from 0 to 100')
  .max(100, 'must be a number from 0 to 100')
  .refine((value) => Number.isInteger(Math.round(value * 1e6) / 1e4), 'has at most two decimals');

const split = written({
  keys: {
    split: section({
      name: text.describe('Splits of the same name have the same people'),
      from: percent,
      to: percent,
    })
      .refine(({ from, to }) => from < to, 'must have a to that is greater than its from')
      .optional()
      .describe('A share of all people, in percent, by a hash of their ids'),
  },
  make({ split }): ConditionOf<'split'> | null {
    if (!split) return null;
    const bucket = (share: number) => Math.round((share * BUCKETS) / 100);
    return { split: { name: split.name, from: bucket(split.from), to: bucket(split.to) } };
  },
});

/** The schema lists the keys in this order. */
const WRITTEN: Readonly<Record<string, Written<z.core.$ZodShape, Condition>>> = {
  all: written({
    keys: { all: conditions.describe('Each of these conditions holds') },
    make: ({ all = [] }) => ({ all }),
  }),
  any: written({
    keys: { any: conditions.describe('At least one of these conditions holds') },
    make: ({ any = [] }) => ({ any }),
  }),
  not: written({
    keys: {
      not: z
        .lazy(() => condition)
        .optional()
        .describe('This condition does not hold'),
    },
    make: ({ not }) => (not ? { not } : null),
  }),
  performed: did('track', 'Did this at least once, unless it says how often'),
  viewed: did('page', 'Viewed this page at least once, unless it says how often'),
  screen: did('screen', 'Viewed this screen at least once, unless it says how often'),
  sequence,
  trait,
  computed,
  split,
  inAudience: written({
    keys: { inAudience: text.optional().describe('The key of another audience') },
    make: ({ inAudience = '' }) => ({ inAudience }),
  }),
};

const CONDITION_NAMES = Object.keys(WRITTEN);

const conditionShape = section(
  Object.assign({}, ...Object.values(WRITTEN).map(({ keys }) => keys)) as z.core.$ZodShape,
);

const condition: z.ZodType<Condition> = conditionShape.transform((given, context): Condition => {
  if (context.issues.length > 0) return z.NEVER;
  const [name, other] = CONDITION_NAMES.filter((candidate) => given[candidate] !== undefined);
  if (name === undefined) {
    context.addIssue(`needs one of ${CONDITION_NAMES.join(', ')}`);
    return z.NEVER;
  }
  if (other !== undefined) {
    const message = `cannot stand beside ${name}: put each into a list under all, or under any`;
    context.addIssue({ code: 'custom', path: [other], message });
    return z.NEVER;
  }
  const owns = (candidate: string, key: string) => Object.hasOwn(WRITTEN[candidate]?.keys ?? {}, key);
  const stray = Object.keys(given).filter((key) => !owns(name, key));
  for (const key of stray) {
    const owner = CONDITION_NAMES.find((candidate) => owns(candidate, key));
    context.addIssue({ code: 'custom', path: [key], message: `belongs to ${owner}, not to ${name}` });
  }
  if (stray.length > 0) return z.NEVER;
  return (
    (WRITTEN[name] as Written<z.core.$ZodShape, Condition>).make(given, (fault) =>
      context.addIssue({ code: 'custom', ...fault }),
    ) ?? z.NEVER
  );
});

function activityOf(
  kind: Activity['kind'],
  names: readonly string[] | null,
  given: z.output<z.ZodObject<typeof activityShape>>,
  refuse: Refuse,
): Activity | null {
  const { within, between } = given;
  const [from = null, until = 0] = between ?? [within];
  const activity = { kind, names, within: from, until, since: given.since ?? null, where: given.where ?? [] };
  if (within === undefined || between === undefined) return activity;
  refuse({ path: ['between'], message: 'cannot stand beside within: give one of the two' });
  return null;
}

/** The most conditions of one definition, since each is a part of its SQL. */
const MOST_CONDITIONS = 200;

/** The short definition of an audience. */
export const when = condition
  .refine((given) => countOf(given) <= MOST_CONDITIONS, {
    error: `has more than ${MOST_CONDITIONS} conditions. Write it as SQL`,
    when: ({ issues }) => issues.length === 0,
  })
  .meta({
    title: 'short definition',
    description: 'Audiences, in place of `sql`: who is in it, by what people do and are (docs/definitions.md).',
  });

const valueShape = section({
  count: activityNames.optional().describe('How often somebody did this'),
  sum: activityNames.optional(),
  average: activityNames.optional(),
  min: activityNames.optional(),
  max: activityNames.optional(),
  mostFrequent: activityNames.optional().describe('The value that comes most often'),
  first: activityNames.optional().describe('The value of the first event that has one'),
  last: activityNames.optional().describe('The value of the last event that has one'),
  uniqueCount: activityNames.optional().describe('How many different values there are'),
  uniqueList: activityNames.optional().describe('The different values, in order'),
  of: z.string().optional().describe('The place of the value in the event, such as properties.total'),
  ...activityShape,
});

const VALUE_OPERATORS = ['count', ...PROPERTY_OPERATORS] as const;

/** The short definition of a computed trait. */
export const value = valueShape
  .transform((given, context): TraitValue => {
    if (context.issues.length > 0) return z.NEVER;
    const refuse: Refuse = (fault) => context.addIssue({ code: 'custom', ...fault });
    const [operator, other] = VALUE_OPERATORS.filter((candidate) => given[candidate] !== undefined);
    if (operator === undefined) context.addIssue(`needs one of ${VALUE_OPERATORS.join(', ')}`);
    else if (other !== undefined)
      refuse({ path: [other], message: `cannot stand beside ${operator}: give one of the two` });
    else return checkedValue(operator, given, refuse) ?? z.NEVER;
    return z.NEVER;
  })
  .meta({
    title: 'short definition',
    description:
      'Traits, in place of `sql`: what to compute of what people do (docs/definitions.md#values-of-a-computed-trait).',
  });

function checkedValue(
  operator: (typeof VALUE_OPERATORS)[number],
  given: z.output<typeof valueShape>,
  refuse: Refuse,
): TraitValue | null {
  const activity = activityOf('track', given[operator] ?? null, given, refuse);
  if (activity === null) return null;
  if (operator === 'count') {
    if (given.of === undefined) return { operator, activity };
    refuse({
      path: ['of'],
      message: 'does not belong to count, which counts events. uniqueCount counts different values',
    });
    return null;
  }
  if (given.of === undefined) {
    refuse({ path: [operator], message: `needs of: the place of the value, such as of: properties.total` });
    return null;
  }
  const of = readPlace(given.of);
  if (!('fault' in of)) return { operator, activity, of };
  refuse({ path: ['of'], message: of.fault });
  return null;
}
