import type { PlaceFilter } from '../../../src/definition/definition.ts';
import {
  OPERATORS as MEANINGS,
  type Operands,
  type OperatorName,
  referenceOf,
  type Scalar,
  type Test,
} from '../../../src/definition/operators.ts';
import type { FieldPlace } from '../../../src/definition/places.ts';
import { literal } from '../sql/plan-query.ts';
import { ago, type DefinitionDialect } from './dialect.ts';

/** The SQL of a scalar in each type. Null where it is none of that type, or is known to be none. */
interface Typed {
  readonly text: string | null;
  readonly number: string | null;
  readonly boolean: string | null;
}

type OperatorSql<Operand> = (value: string, operand: Operand, dialect: DefinitionDialect) => string;

/** Makes an operator's SQL condition on a JSON value, which may be null. Some operands may be references. */
const OPERATORS: {
  readonly [Name in OperatorName]: OperatorSql<
    (typeof MEANINGS)[Name]['takes'] extends 'scalar' | 'part' | 'ordered' | 'text' | 'instant'
      ? Typed
      : Operands[(typeof MEANINGS)[Name]['takes']]
  >;
} = {
  is: same,
  isNot: (...given) => `NOT ${known(same(...given))}`,
  in: among,
  notIn: (...given) => `NOT ${known(among(...given))}`,
  gt: ordered('>'),
  gte: ordered('>='),
  lt: ordered('<'),
  lte: ordered('<='),
  contains,
  notContains: (...given) => `NOT ${known(contains(...given))}`,
  startsWith: (value, { text }, dialect) => {
    const own = typed(value, dialect).text;
    return text === null ? 'FALSE' : `left(${own}, length(${text}))${dialect.binary} = ${text}`;
  },
  endsWith: (value, { text }, dialect) => {
    const own = typed(value, dialect).text;
    // The right part of no letters is empty.
    return text === null ? 'FALSE' : `right(${own}, length(${text}))${dialect.binary} = ${text}`;
  },
  matches: (value, { text }, dialect) => `${typed(value, dialect).text}${dialect.binary} LIKE ${text} ESCAPE '!'`,
  before: instants('<'),
  after: instants('>'),
  withinLast: (value, span, dialect) => {
    const at = dialect.instant(typed(value, dialect).text ?? '');
    return `(${at} > ${ago(span)} AND ${at} <= $now)`;
  },
  withinNext: (value, span, dialect) => {
    const at = dialect.instant(typed(value, dialect).text ?? '');
    return `(${at} >= $now AND ${at} < $now + INTERVAL '${span} milliseconds')`;
  },
  exists: (value, operand, dialect) => `${operand ? '' : 'NOT '}${known(dialect.exists(value))}`,
};

/** A trait's SQL value, as JSON, by its outermost key. */
type TraitSql = (trait: string) => string;

/** A condition that a JSON value passes all these tests. It is never null. */
export function passesAll(
  value: string,
  tests: readonly Test[],
  dialect: DefinitionDialect,
  traitOf: TraitSql = noTrait,
): string {
  return tests.map((test) => passes(value, test, dialect, traitOf)).join(' AND ');
}

function noTrait(trait: string): string {
  throw new Error(`The trait ${trait} has no value here.`);
}

/** The conditions of filters, on the columns of an event. */
export function filterConditions(
  filters: readonly PlaceFilter[],
  dialect: DefinitionDialect,
  traitOf: TraitSql = noTrait,
): readonly string[] {
  const at = ({ part, path }: FieldPlace) => dialect.at(part, path);
  return filters.map((filter) => passesAll(at(filter), filter.tests, dialect, traitOf));
}

const TYPED: ReadonlySet<keyof Operands> = new Set(['scalar', 'part', 'ordered', 'text', 'instant']);

function passes(value: string, test: Test, dialect: DefinitionDialect, traitOf: TraitSql): string {
  // The type of a test guarantees that they match.
  const sql = OPERATORS[test.operator] as OperatorSql<unknown>;
  const isTyped = TYPED.has(MEANINGS[test.operator].takes);
  return known(sql(value, isTyped ? operandOf(test, dialect, traitOf) : test.operand, dialect));
}

function operandOf(test: Test, dialect: DefinitionDialect, traitOf: TraitSql): Typed {
  const reference = referenceOf(test);
  if (reference === null) {
    const { operand, operator } = test;
    return constant((operator === 'matches' ? likePattern(operand) : operand) as Scalar, dialect);
  }
  if ('property' in reference) return typed(dialect.at(reference.property.part, reference.property.path), dialect);
  const [trait = '', ...rest] = reference.trait;
  return typed(rest.length === 0 ? traitOf(trait) : dialect.at(traitOf(trait), rest), dialect);
}

function constant(value: Scalar, dialect: DefinitionDialect): Typed {
  return {
    text: typeof value === 'string' ? literal(value) : null,
    number: typeof value === 'number' ? dialect.numberLiteral(value) : null,
    boolean: typeof value === 'boolean' ? `'${value}'` : null,
  };
}

function typed(value: string, dialect: DefinitionDialect): { readonly [Type in keyof Typed]: string } {
  return {
    text: `CASE WHEN ${dialect.isText(value)} THEN ${dialect.text(value)} END`,
    number: dialect.number(value),
    boolean: `CASE WHEN ${dialect.isBoolean(value)} THEN ${dialect.text(value)} END`,
  };
}

/** Compares those types of a value that the operand may have. */
function compared(value: string, operand: Typed, dialect: DefinitionDialect, sign: string, types: (keyof Typed)[]) {
  const own = typed(value, dialect);
  const conditions = types.flatMap((type) =>
    operand[type] === null ? [] : `${own[type]}${type === 'text' ? dialect.binary : ''} ${sign} ${operand[type]}`,
  );
  return `(${conditions.map(known).join(' OR ') || 'FALSE'})`;
}

function same(value: string, operand: Typed, dialect: DefinitionDialect): string {
  return compared(value, operand, dialect, '=', ['text', 'number', 'boolean']);
}

function among(value: string, operands: readonly Scalar[], dialect: DefinitionDialect): string {
  return operands.map((each) => same(value, constant(each, dialect), dialect)).join(' OR ');
}

function ordered(sign: string): OperatorSql<Typed> {
  return (value, operand, dialect) => compared(value, operand, dialect, sign, ['text', 'number']);
}

function contains(value: string, operand: Typed, dialect: DefinitionDialect): string {
  const item = `WHEN ${dialect.isList(value)} THEN ${dialect.hasItem(value, (item) => same(item, operand, dialect))}`;
  if (operand.text === null) return `CASE ${item} END`;
  return `CASE ${item} WHEN ${dialect.isText(value)} THEN strpos(${dialect.text(value)}, ${operand.text}) > 0 END`;
}

function instants(sign: string): OperatorSql<Typed> {
  return (value, { text }, dialect) =>
    text === null ? 'FALSE' : `${dialect.instant(typed(value, dialect).text)} ${sign} ${dialect.instant(text)}`;
}

/** Makes a pattern of LIKE from a glob. */
function likePattern(glob: unknown): string {
  return String(glob).replaceAll(/[!%_]/g, '!$&').replaceAll('*', '%').replaceAll('?', '_');
}

function known(condition: string): string {
  return `coalesce(${condition}, FALSE)`;
}
