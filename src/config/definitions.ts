import * as z from 'zod';
import {
  CONDITION_NAMES,
  type Condition,
  type ConditionName,
  type ConditionOf,
  countOf,
} from '../definition/conditions.ts';
import { type Activity, PROPERTY_OPERATORS, type TraitValue } from '../definition/definition.ts';
import { eventName, readPath, readPlace, testShape, testsOf, where, windowShape } from './definition-parts.ts';
import { text, whole } from './formats.ts';
import { section } from './section.ts';

const activityShape = { ...windowShape, where: where.optional() };

type Refuse = (fault: { readonly path: string[]; readonly message: string }) => void;

/** The syntax of a condition: its key, keys that may accompany it, and the condition that they make. */
interface Written<Keys extends z.core.$ZodShape, Made> {
  readonly keys: Keys;
  make(given: z.output<z.ZodObject<Keys>>, refuse: Refuse): Made | null;
}

const written = <Keys extends z.core.$ZodShape, Made>(given: Written<Keys, Made>) => given;

const conditions = z.lazy(() => z.array(condition).min(1, 'needs at least one condition')).optional();

const performed = written({
  keys: {
    performed: eventName.optional().describe('Did this at least once, unless it says how often'),
    atLeast: whole(1).optional(),
    exactly: whole(0).optional(),
    atMost: whole(0).optional().describe('Never counts, too'),
    ...activityShape,
  },
  make(given, refuse): ConditionOf<'performed'> | null {
    const { exactly, atLeast, atMost } = given;
    const performed = activityOf(given.performed ?? '', given);
    if (exactly !== undefined) {
      const other = atLeast === undefined ? 'atMost' : 'atLeast';
      if (given[other] === undefined) return { performed, least: exactly, most: exactly };
      refuse({ path: [other], message: 'cannot stand beside exactly: give one of the two' });
      return null;
    }
    // On its own, atMost includes people who never did it.
    const least = atLeast ?? (atMost === undefined ? 1 : 0);
    if (atMost === undefined || least <= atMost) return { performed, least, most: atMost ?? null };
    refuse({ path: ['atMost'], message: 'is less than atLeast: nobody could be in it' });
    return null;
  },
});

const trait = written({
  keys: {
    trait: text.optional().describe('The trait of this name, as the latest identify that has it says'),
    ...testShape,
  },
  make(given, refuse): ConditionOf<'trait'> | null {
    const path = readPath(String(given['trait']));
    if ('fault' in path) refuse({ path: ['trait'], message: path.fault });
    const tests = testsOf(given);
    if (tests.length === 0) refuse({ path: ['trait'], message: 'needs an operator, such as is: pro or exists: true' });
    return 'fault' in path || tests.length === 0 ? null : { trait: path.path, tests };
  },
});

/** The schema lists the keys in this order. */
const WRITTEN: { readonly [Name in ConditionName]: Written<z.core.$ZodShape, ConditionOf<Name>> } = {
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
  performed,
  trait,
  inAudience: written({
    keys: { inAudience: text.optional().describe('The key of another audience') },
    make: ({ inAudience = '' }) => ({ inAudience }),
  }),
};

const conditionShape = section(
  Object.assign({}, ...CONDITION_NAMES.map((name) => WRITTEN[name].keys)) as z.core.$ZodShape,
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
  const stray = Object.keys(given).filter((key) => !Object.hasOwn(WRITTEN[name].keys, key));
  for (const key of stray) {
    const owner = CONDITION_NAMES.find((candidate) => Object.hasOwn(WRITTEN[candidate].keys, key));
    context.addIssue({ code: 'custom', path: [key], message: `belongs to ${owner}, not to ${name}` });
  }
  if (stray.length > 0) return z.NEVER;
  return WRITTEN[name].make(given, (fault) => context.addIssue({ code: 'custom', ...fault })) ?? z.NEVER;
});

function activityOf(event: string, given: z.output<z.ZodObject<typeof activityShape>>): Activity {
  return { event, within: given.within ?? null, since: given.since ?? null, where: given.where ?? [] };
}

/** The most conditions of one definition, since each is a part of its SQL. */
const MOST_CONDITIONS = 200;

/** The short definition of an audience. */
export const when = condition
  .refine((given) => countOf(given) <= MOST_CONDITIONS, `has more than ${MOST_CONDITIONS} conditions. Write it as SQL`)
  .meta({
    title: 'short definition',
    description: 'Audiences, in place of `sql`: who is in it, by what people do and are (docs/definitions.md).',
  });

const valueShape = section({
  count: eventName.optional().describe('How often somebody did this'),
  sum: eventName.optional(),
  average: eventName.optional(),
  min: eventName.optional(),
  max: eventName.optional(),
  mostFrequent: eventName.optional().describe('The value that comes most often'),
  first: eventName.optional().describe('The value of the first event that has one'),
  last: eventName.optional().describe('The value of the last event that has one'),
  uniqueCount: eventName.optional().describe('How many different values there are'),
  uniqueList: eventName.optional().describe('The different values, in order'),
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
  const activity = activityOf(given[operator] ?? '', given);
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
