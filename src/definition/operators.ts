import { matchesGlob } from '../kernel/glob.ts';
import { isoInstant } from '../kernel/timestamp.ts';
import type { FieldPlace, KeyPath } from './places.ts';

/** A value that a filter compares with one in a message. */
export type Scalar = string | number | boolean;

/** A value in place of a constant: a trait of the person, or a place in the same event. */
export type ValueReference = { readonly trait: KeyPath } | { readonly property: FieldPlace };

/** The forms of operands. `src/config/definition-parts.ts` has the syntax of each. */
export interface Operands {
  readonly scalar: Scalar;
  /** A scalar. Text must not be empty. */
  readonly part: Scalar;
  readonly list: readonly Scalar[];
  readonly ordered: string | number;
  readonly flag: boolean;
  /** Text that is not empty. */
  readonly text: string;
  /** An instant in ISO 8601. */
  readonly instant: string;
  /** Milliseconds. */
  readonly span: number;
}

/** Forms for which a reference may stand. */
export const REFERRING = ['scalar', 'part', 'ordered', 'text', 'instant'] as const satisfies (keyof Operands)[];
type Referring = (typeof REFERRING)[number];

interface Operator<Form extends keyof Operands> {
  /** The form of its operand. */
  readonly takes: Form;
  /** A sentence for the JSON schema. docs/definitions.md has the whole meaning. */
  readonly says?: string;
  /**
   * True if a value passes at an instant. A missing value is undefined. A reference to anything but a scalar is null.
   */
  passes(
    value: unknown,
    operand: Form extends Referring ? Operands[Form] | Scalar | null : Operands[Form],
    now: number,
  ): boolean;
  /** The next instant at which the result may differ by time alone; null for never. */
  changesAt?(value: unknown, operand: Operands[Form], now: number): number | null;
}

const operator = <Form extends keyof Operands>(given: Operator<Form>) => given;

/**
 * The operators of short definitions, in the order in which mistakes and the schema list them. The SQL of each is in
 * `jobs/engines/definitions/operators.ts`.
 */
export const OPERATORS = {
  is: operator({
    takes: 'scalar',
    says: 'Equal, and of the same type',
    passes: (value, operand) => value === operand && operand !== null,
  }),
  isNot: operator({
    takes: 'scalar',
    says: 'Not equal, or missing',
    passes: (value, operand) => value !== operand || operand === null,
  }),
  in: operator({
    takes: 'list',
    says: 'Equal to one of these',
    passes: (value, operand) => operand.some((each) => each === value),
  }),
  notIn: operator({
    takes: 'list',
    says: 'Equal to none of these, or missing',
    passes: (value, operand) => !operand.some((each) => each === value),
  }),
  gt: operator({
    takes: 'ordered',
    says: 'Greater: numbers than a number, text than text',
    passes: (value, operand) => compared(value, operand) > 0,
  }),
  gte: operator({ takes: 'ordered', passes: (value, operand) => compared(value, operand) >= 0 }),
  lt: operator({ takes: 'ordered', passes: (value, operand) => compared(value, operand) < 0 }),
  lte: operator({ takes: 'ordered', passes: (value, operand) => compared(value, operand) <= 0 }),
  contains: operator({ takes: 'part', says: 'A part of the text, or an item of the list', passes: contains }),
  notContains: operator({
    takes: 'part',
    says: 'No part of the text, no item of the list, or missing',
    passes: (value, operand) => !contains(value, operand),
  }),
  startsWith: operator({
    takes: 'text',
    says: 'Text that begins with this',
    passes: (value, operand) => typeof value === 'string' && typeof operand === 'string' && value.startsWith(operand),
  }),
  endsWith: operator({
    takes: 'text',
    says: 'Text that ends with this',
    passes: (value, operand) => typeof value === 'string' && typeof operand === 'string' && value.endsWith(operand),
  }),
  matches: operator({
    takes: 'text',
    says: 'The whole text, where * stands for any characters and ? for one',
    passes: (value, operand) => typeof value === 'string' && typeof operand === 'string' && matchesGlob(value, operand),
  }),
  before: operator({
    takes: 'instant',
    says: 'Text that is an ISO time before this one',
    passes: (value, operand) => instantOf(value) < instantOf(operand),
  }),
  after: operator({
    takes: 'instant',
    says: 'Text that is an ISO time after this one',
    passes: (value, operand) => instantOf(value) > instantOf(operand),
  }),
  withinLast: operator({
    takes: 'span',
    says: 'Text that is an ISO time until now, less than this ago',
    passes: (value, span, now) => instantOf(value) > now - span && instantOf(value) <= now,
    changesAt: (value, span, now) => firstAfter(now, [instantOf(value), instantOf(value) + span]),
  }),
  withinNext: operator({
    takes: 'span',
    says: 'Text that is an ISO time from now on, less than this ahead',
    passes: (value, span, now) => instantOf(value) >= now && instantOf(value) < now + span,
    changesAt: (value, span, now) => firstAfter(now, [instantOf(value) - span + 1, instantOf(value) + 1]),
  }),
  exists: operator({
    takes: 'flag',
    says: 'Whether there is a value that is not null',
    passes: (value, operand) => (value !== undefined && value !== null) === operand,
  }),
};

function contains(value: unknown, operand: Scalar | null): boolean {
  if (operand === null) return false;
  if (typeof value === 'string') return typeof operand === 'string' && value.includes(operand);
  return Array.isArray(value) && value.includes(operand);
}

const YEAR = '(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})';
const CLOCK = '([01][0-9]|2[0-3]):[0-5][0-9]';
/** ISO 8601 but for the days of each month, as a regular expression that all databases have, too. */
export const INSTANT = `^${YEAR}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])([Tt ]${CLOCK}(:[0-5][0-9]([.,][0-9]+)?)?([Zz]|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)?)?$`;
const IS_INSTANT = new RegExp(INSTANT);

/** NaN for anything that is no ISO time, so that no comparison holds. */
function instantOf(value: unknown): number {
  return typeof value === 'string' && IS_INSTANT.test(value) ? (isoInstant(value) ?? Number.NaN) : Number.NaN;
}

function firstAfter(now: number, instants: readonly number[]): number | null {
  return instants.find((at) => at > now) ?? null;
}

export type OperatorName = keyof typeof OPERATORS;
export const OPERATOR_NAMES = Object.keys(OPERATORS) as readonly OperatorName[];

/** The operand of an operator. */
type OperandOf<Name extends OperatorName> = Operands[(typeof OPERATORS)[Name]['takes']];

/** An operator and its operand, which may be a reference for some forms. */
export type Test = {
  [Name in OperatorName]: {
    readonly operator: Name;
    readonly operand: OperandOf<Name> | ((typeof OPERATORS)[Name]['takes'] extends Referring ? ValueReference : never);
  };
}[OperatorName];

/** The instant at which tests are asked, and the values that references have. */
export interface TestContext {
  readonly now: number;
  resolve(reference: ValueReference): unknown;
}

export function passesAll(value: unknown, tests: readonly Test[], context: TestContext): boolean {
  return tests.every((test) => {
    const reference = referenceOf(test);
    return operatorOf(test).passes(value, reference ? scalarOr(context.resolve(reference)) : test.operand, context.now);
  });
}

/** The next instant at which the result of a test may differ by time alone; null for never. */
export function changesAt(value: unknown, test: Test, now: number): number | null {
  return operatorOf(test).changesAt?.(value, test.operand, now) ?? null;
}

/** The reference that stands for the operand of a test; null for a constant. */
export function referenceOf({ operand }: Test): ValueReference | null {
  return typeof operand === 'object' && ('trait' in operand || 'property' in operand) ? operand : null;
}

/** The outermost keys of the traits that tests refer to, each once. */
export function traitsIn(filters: readonly { readonly tests: readonly Test[] }[]): readonly string[] {
  const references = filters.flatMap(({ tests }) => tests.flatMap((test) => referenceOf(test) ?? []));
  return [...new Set(references.flatMap((reference) => ('trait' in reference ? (reference.trait[0] ?? '') : [])))];
}

/** True if the result depends on the message alone. */
export function isFixed(test: Test): boolean {
  const reference = referenceOf(test);
  return operatorOf(test).changesAt === undefined && (reference === null || 'property' in reference);
}

interface AnyOperator {
  passes(value: unknown, operand: unknown, now: number): boolean;
  changesAt?(value: unknown, operand: unknown, now: number): number | null;
}

/** The type of a test guarantees that operator and operand match. */
const operatorOf = (test: Test) => OPERATORS[test.operator] as AnyOperator;

const scalarOr = (value: unknown): Scalar | null =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? value : null;

/** Compares numbers with numbers and text with text. NaN for anything else, so that no comparison holds. */
function compared(value: unknown, operand: Scalar | null): number {
  if (operand === null || typeof operand === 'boolean' || typeof value !== typeof operand) return Number.NaN;
  return typeof operand === 'string' ? compareText(String(value), operand) : Number(value) - Number(operand);
}

/** Compares by code points like both databases. JavaScript's own order differs beyond the first 65,536. */
export function compareText(a: string, b: string): number {
  return a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b));
}
