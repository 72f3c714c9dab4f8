import * as z from 'zod';
import type { Activity, Condition, Performed, TraitValue } from '../definition/definition.ts';
import { PROPERTY_OPERATORS } from '../definition/definition.ts';
import {
  eventName,
  OPERATORS,
  readPath,
  readPlace,
  testShape,
  testsOf,
  where,
  windowShape,
} from './definition-parts.ts';
import { text, whole } from './formats.ts';
import { section } from './section.ts';

const activityShape = { ...windowShape, where: where.optional() };

/** The kinds of conditions, and what may stand beside each. */
const BESIDE: Readonly<Record<(typeof HEADS)[number], readonly string[]>> = {
  all: [],
  any: [],
  not: [],
  performed: ['atLeast', 'exactly', 'atMost', ...Object.keys(activityShape)],
  trait: OPERATORS,
  inAudience: [],
};
const HEADS = ['all', 'any', 'not', 'performed', 'trait', 'inAudience'] as const;

const conditions = z.lazy(() => z.array(condition).min(1, 'needs at least one condition'));

const conditionShape = section({
  all: conditions.optional().describe('Each of these conditions holds'),
  any: conditions.optional().describe('At least one of these conditions holds'),
  not: z
    .lazy(() => condition)
    .optional()
    .describe('This condition does not hold'),
  performed: eventName.optional().describe('Did this at least once, unless it says how often'),
  atLeast: whole(1).optional(),
  exactly: whole(0).optional(),
  atMost: whole(0).optional().describe('Never counts, too'),
  ...activityShape,
  trait: text.optional().describe('The trait of this name, as the latest identify that has it says'),
  ...testShape,
  inAudience: text.optional().describe('The key of another audience'),
});
type Given = z.output<typeof conditionShape>;

const condition: z.ZodType<Condition> = conditionShape.transform((given, context): Condition => {
  if (context.issues.length > 0) return z.NEVER;
  const heads = HEADS.filter((head) => given[head] !== undefined);
  const [head, other] = heads;
  if (head === undefined) {
    context.addIssue(`needs one of ${HEADS.join(', ')}`);
    return z.NEVER;
  }
  if (other !== undefined) {
    const message = `cannot stand beside ${head}: put each into a list under all, or under any`;
    context.addIssue({ code: 'custom', path: [other], message });
    return z.NEVER;
  }
  const stray = Object.keys(given).filter((key) => key !== head && !BESIDE[head].includes(key));
  for (const key of stray) {
    const owner = BESIDE.performed.includes(key) ? 'performed' : 'trait';
    context.addIssue({ code: 'custom', path: [key], message: `belongs to ${owner}, not to ${head}` });
  }
  const result =
    stray.length > 0 ? null : conditionOf(given, (fault) => context.addIssue({ code: 'custom', ...fault }));
  return result ?? z.NEVER;
});

type Refuse = (fault: { readonly path: string[]; readonly message: string }) => void;

function conditionOf(given: Given, refuse: Refuse): Condition | null {
  if (given.all) return { all: given.all };
  if (given.any) return { any: given.any };
  if (given.not) return { not: given.not };
  if (given.performed !== undefined) return performedOf(given.performed, given, refuse);
  if (given.inAudience !== undefined) return { inAudience: given.inAudience };
  const path = readPath(given.trait ?? '');
  if ('fault' in path) refuse({ path: ['trait'], message: path.fault });
  const tests = testsOf(given);
  if (tests.length === 0) refuse({ path: ['trait'], message: 'needs an operator, such as is: pro or exists: true' });
  return 'fault' in path || tests.length === 0 ? null : { trait: path.path, tests };
}

function performedOf(event: string, given: Given, refuse: Refuse): Performed | null {
  const { exactly, atLeast, atMost } = given;
  const performed = activityOf(event, given);
  if (exactly !== undefined) {
    const beside = atLeast === undefined ? 'atMost' : 'atLeast';
    if (given[beside] === undefined) return { performed, least: exactly, most: exactly };
    refuse({ path: [beside], message: 'cannot stand beside exactly: give one of the two' });
    return null;
  }
  // Said alone, atMost includes those who never did it.
  const least = atLeast ?? (atMost === undefined ? 1 : 0);
  if (atMost === undefined || least <= atMost) return { performed, least, most: atMost ?? null };
  refuse({ path: ['atMost'], message: 'is less than atLeast: nobody could be in it' });
  return null;
}

function activityOf(event: string, given: z.output<z.ZodObject<typeof activityShape>>): Activity {
  return { event, within: given.within ?? null, since: given.since ?? null, where: given.where ?? [] };
}

/** Conditions of one definition at most: each is a part of its SQL. */
const MOST_CONDITIONS = 200;

/** The short definition of an audience. */
export const when = condition
  .refine((given) => countOf(given) <= MOST_CONDITIONS, `has more than ${MOST_CONDITIONS} conditions. Write it as SQL`)
  .meta({
    title: 'short definition',
    description: 'Audiences, in place of `sql`: who is in it, by what people do and are (docs/definitions.md).',
  });

function countOf(condition: Condition): number {
  if ('all' in condition) return condition.all.reduce((sum, part) => sum + countOf(part), 1);
  if ('any' in condition) return condition.any.reduce((sum, part) => sum + countOf(part), 1);
  return 'not' in condition ? 1 + countOf(condition.not) : 1;
}

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
