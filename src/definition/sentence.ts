import { type Condition, conditionsIn } from './conditions.ts';
import type { Activity, Sequence, TraitValue } from './definition.ts';
import { OPERATORS, type OperatorName, referenceOf, type Test } from './operators.ts';
import type { FieldPlace, KeyPath } from './places.ts';

/** A short definition in words, such as `did Order Completed at least 3 times in the last 30 days`. */
export function sentenceOf(condition: Condition): string {
  if ('all' in condition) return condition.all.map(inGroup).join(', and ');
  if ('any' in condition) return condition.any.map(inGroup).join(', or ');
  if ('not' in condition) return `not: ${sentenceOf(condition.not)}`;
  if ('performed' in condition) return performed(condition.performed, condition.least, condition.most);
  if ('firstTime' in condition) return did(condition.firstTime, ' for the first time');
  if ('sequence' in condition) return steps(condition.sequence).join(', then ');
  if ('trait' in condition) return `trait ${dotted(condition.trait)} ${tests(condition.tests)}`;
  if ('inAudience' in condition) return `is in ${condition.inAudience}`;
  if ('split' in condition) {
    const { name, from, to } = condition.split;
    return `is in the share from ${from / 100} % to ${to / 100} % of ${name}`;
  }
  const { key, column } = condition.computed;
  return `computed ${key === column ? key : dotted([key, column])} ${tests(condition.tests)}`;
}

/** The sentences of conditions and of the steps of sequences, by path. */
export function sentencesIn(when: Condition): ReadonlyMap<string, string> {
  return new Map(
    conditionsIn(when).flatMap(({ path, part }) => [
      [path, sentenceOf(part)] as const,
      ...('sequence' in part
        ? steps(part.sequence).map((said, step) => [`${path}.sequence[${step}]`, said] as const)
        : []),
    ]),
  );
}

/** The value of a trait in words, such as `sum of properties.total of Order Completed in the last 90 days`. */
export function valueSentence(value: TraitValue): string {
  const { operator, activity } = value;
  const words = operator.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  const of = 'of' in value ? ` ${placed(value.of)} of` : '';
  return `${words} of${of} ${thing(activity)}${when(activity)}`;
}

function inGroup(part: Condition): string {
  return 'all' in part || 'any' in part ? `(${sentenceOf(part)})` : sentenceOf(part);
}

function performed(activity: Activity, least: number, most: number | null): string {
  if (most === 0) return `never ${did(activity)}`;
  if (most === null) return did(activity, least === 1 ? '' : ` at least ${times(least)}`);
  if (least === most) return did(activity, ` exactly ${times(least)}`);
  return did(activity, ` ${least > 0 ? `${least} to` : 'at most'} ${times(most)}`);
}

const times = (count: number) => (count === 1 ? 'once' : `${count} times`);

const VERBS = { track: 'did', page: 'viewed', screen: 'saw' } as const;
const ANY = { track: 'anything', page: 'any page', screen: 'any screen' } as const;

const thing = ({ kind, names }: Activity) => names?.join(' or ') ?? ANY[kind];
const did = (activity: Activity, often = '') => `${VERBS[activity.kind]} ${thing(activity)}${often}${when(activity)}`;

/** The window and filters of an activity. */
function when({ within, until, since, where }: Activity): string {
  const window =
    within === null
      ? until > 0
        ? ` more than ${span(until)} ago`
        : ''
      : until > 0
        ? ` between ${span(within)} and ${span(until)} ago`
        : ` in the last ${span(within)}`;
  const from = since === null ? '' : ` since ${new Date(since).toISOString()}`;
  const filters = where.map((filter) => `${placed(filter)} ${tests(filter.tests)}`);
  return `${window}${from}${filters.length > 0 ? ` where ${filters.join(' and ')}` : ''}`;
}

function steps({ steps: all, not }: Sequence): readonly string[] {
  const said = all.map(
    ({ activity, atLeast, atMost }, place) => `${did(activity)}${place === 0 ? '' : gap(atLeast, atMost)}`,
  );
  if (not !== null) said.push(`never ${did(not.activity)} within ${span(not.atMost)}`);
  return said;
}

/** The time since the step before. */
function gap(atLeast: number, atMost: number | null): string {
  if (atMost === null) return atLeast === 0 ? '' : ` at least ${span(atLeast)} later`;
  return atLeast === 0 ? ` within ${span(atMost)}` : ` ${span(atLeast)} to ${span(atMost)} later`;
}

const WORDS: Readonly<Record<OperatorName, string>> = {
  ...{ is: 'is', isNot: 'is not', in: 'is one of', notIn: 'is none of' },
  ...{ gt: 'is more than', gte: 'is at least', lt: 'is less than', lte: 'is at most' },
  ...{ contains: 'contains', notContains: 'does not contain', startsWith: 'begins with', endsWith: 'ends with' },
  ...{ matches: 'matches', before: 'is before', after: 'is after' },
  ...{ withinLast: 'was in the last', withinNext: 'is in the next', exists: 'exists' },
};

function tests(all: readonly Test[]): string {
  return all.map((test) => (test.operator === 'exists' && !test.operand ? 'is missing' : tested(test))).join(' and ');
}

function tested(test: Test): string {
  const words = WORDS[test.operator];
  const reference = referenceOf(test);
  if (reference !== null)
    return `${words} ${'trait' in reference ? `trait ${dotted(reference.trait)}` : placed(reference.property)}`;
  if (test.operator === 'exists') return words;
  const isSpan = OPERATORS[test.operator].takes === 'span';
  const all = Array.isArray(test.operand) ? test.operand : [test.operand];
  return `${words} ${all.map((each) => (isSpan ? span(Number(each)) : JSON.stringify(each))).join(', ')}`;
}

const placed = ({ part, path }: FieldPlace) => dotted([part, ...path]);
const dotted = (path: KeyPath) => path.map((key) => (/[."]/.test(key) ? JSON.stringify(key) : key)).join('.');

const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
] as const;

/** Milliseconds in the greatest unit of which they are a multiple. */
function span(ms: number): string {
  const [unit, length] = UNITS.find(([, length]) => ms % length === 0) ?? ['millisecond', 1];
  return ms === length ? `1 ${unit}` : `${ms / length} ${unit}s`;
}
