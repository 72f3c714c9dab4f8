import type { PlaceFilter } from '../../../src/definition/definition.ts';
import type { OperandOf, OperatorName, Test } from '../../../src/definition/operators.ts';
import { literal } from '../sql/plan-query.ts';
import type { DefinitionDialect } from './dialect.ts';

/** Makes an operator's SQL condition on a JSON value, which is never null. */
type OperatorSql<Operand> = (value: string, operand: Operand, dialect: DefinitionDialect) => string;

const OPERATORS: { readonly [Name in OperatorName]: OperatorSql<OperandOf<Name>> } = {
  is: (value, operand, dialect) => known(dialect.equals(value, operand)),
  isNot: (value, operand, dialect) => `NOT ${known(dialect.equals(value, operand))}`,
  in: (value, operand, dialect) => known(operand.map((each) => known(dialect.equals(value, each))).join(' OR ')),
  gt: ordered('>'),
  gte: ordered('>='),
  lt: ordered('<'),
  lte: ordered('<='),
  contains(value, operand, dialect) {
    const item = `WHEN ${dialect.isList(value)} THEN ${dialect.hasItem(value, operand)}`;
    if (typeof operand !== 'string') return known(`CASE ${item} END`);
    const part = `WHEN ${dialect.isText(value)} THEN strpos(${dialect.text(value)}, ${literal(operand)}) > 0`;
    return known(`CASE ${item} ${part} END`);
  },
  exists: (value, operand, dialect) => `${operand ? '' : 'NOT '}${known(dialect.exists(value))}`,
};

/** A condition that a JSON value passes all these tests. It is never null. */
export function passesAll(value: string, tests: readonly Test[], dialect: DefinitionDialect): string {
  return tests.map((test) => passes(value, test, dialect)).join(' AND ');
}

/** The conditions of filters, on the columns of an event. */
export function filterConditions(filters: readonly PlaceFilter[], dialect: DefinitionDialect): readonly string[] {
  return filters.map(({ part, path, tests }) => passesAll(dialect.at(part, path), tests, dialect));
}

function passes(value: string, test: Test, dialect: DefinitionDialect): string {
  // The type of a test guarantees that they match.
  const sql = OPERATORS[test.operator] as OperatorSql<Test['operand']>;
  return sql(value, test.operand, dialect);
}

function ordered(sign: string): OperatorSql<string | number> {
  return (value, operand, dialect) => {
    if (typeof operand === 'number') return known(`${dialect.number(value)} ${sign} ${dialect.numberLiteral(operand)}`);
    const text = `CASE WHEN ${dialect.isText(value)} THEN ${dialect.text(value)} END`;
    return known(`${text}${dialect.binary} ${sign} ${literal(operand)}`);
  };
}

function known(condition: string): string {
  return `coalesce(${condition}, FALSE)`;
}
