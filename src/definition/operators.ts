/** A value that a filter compares with one in a message. */
export type Scalar = string | number | boolean;

/** The forms of operands. `src/config/definition-parts.ts` has the syntax of each. */
export interface Operands {
  readonly scalar: Scalar;
  /** A scalar. Text must not be empty. */
  readonly part: Scalar;
  readonly list: readonly Scalar[];
  readonly ordered: string | number;
  readonly flag: boolean;
}

interface Operator<Form extends keyof Operands> {
  /** The form of its operand. */
  readonly takes: Form;
  /** A sentence for the JSON schema. docs/definitions.md has the whole meaning. */
  readonly says?: string;
  /** True if a value passes. A missing value is undefined. */
  passes(value: unknown, operand: Operands[Form]): boolean;
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
    passes: (value, operand) => value === operand,
  }),
  isNot: operator({
    takes: 'scalar',
    says: 'Not equal, or missing',
    passes: (value, operand) => value !== operand,
  }),
  in: operator({
    takes: 'list',
    says: 'Equal to one of these',
    passes: (value, operand) => operand.some((each) => each === value),
  }),
  gt: operator({
    takes: 'ordered',
    says: 'Greater: numbers than a number, text than text',
    passes: (value, operand) => compared(value, operand) > 0,
  }),
  gte: operator({ takes: 'ordered', passes: (value, operand) => compared(value, operand) >= 0 }),
  lt: operator({ takes: 'ordered', passes: (value, operand) => compared(value, operand) < 0 }),
  lte: operator({ takes: 'ordered', passes: (value, operand) => compared(value, operand) <= 0 }),
  contains: operator({
    takes: 'part',
    says: 'A part of the text, or an item of the list',
    passes(value, operand) {
      if (typeof value === 'string') return typeof operand === 'string' && value.includes(operand);
      return Array.isArray(value) && value.includes(operand);
    },
  }),
  exists: operator({
    takes: 'flag',
    says: 'Whether there is a value that is not null',
    passes: (value, operand) => (value !== undefined && value !== null) === operand,
  }),
};

export type OperatorName = keyof typeof OPERATORS;
export const OPERATOR_NAMES = Object.keys(OPERATORS) as readonly OperatorName[];

/** The operand of an operator. */
export type OperandOf<Name extends OperatorName> = Operands[(typeof OPERATORS)[Name]['takes']];

/** An operator and its operand. */
export type Test = {
  [Name in OperatorName]: { readonly operator: Name; readonly operand: OperandOf<Name> };
}[OperatorName];

export function passesAll(value: unknown, tests: readonly Test[]): boolean {
  return tests.every((test) => passes(value, test));
}

function passes(value: unknown, test: Test): boolean {
  // The type of a test guarantees that they match.
  const { passes } = OPERATORS[test.operator] as Operator<keyof Operands>;
  return passes(value, test.operand);
}

/** Compares numbers with numbers and text with text. NaN for anything else, so that no comparison holds. */
function compared(value: unknown, operand: string | number): number {
  if (typeof value !== typeof operand) return Number.NaN;
  return typeof operand === 'string' ? compareText(String(value), operand) : Number(value) - operand;
}

/** Compares by code points like both databases. JavaScript's own order differs beyond the first 65,536. */
export function compareText(a: string, b: string): number {
  return a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b));
}
