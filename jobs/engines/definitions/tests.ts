import type { OrderOperator, PlaceFilter, Test } from '../../../src/definition/definition.ts';
import { literal } from '../sql/plan-query.ts';
import type { DefinitionDialect } from './dialect.ts';

const SIGNS: Readonly<Record<OrderOperator, string>> = { gt: '>', gte: '>=', lt: '<', lte: '<=' };

/** A condition that a JSON value passes all these tests; true or false, never null. */
export function passesAll(value: string, tests: readonly Test[], dialect: DefinitionDialect): string {
  return tests.map((test) => passes(value, test, dialect)).join(' AND ');
}

/** Conditions that filters make of the columns of an event. */
export function filterConditions(filters: readonly PlaceFilter[], dialect: DefinitionDialect): readonly string[] {
  return filters.map(({ part, path, tests }) => passesAll(dialect.at(part, path), tests, dialect));
}

function passes(value: string, test: Test, dialect: DefinitionDialect): string {
  if (test.operator === 'isNot') return `NOT ${known(dialect.equals(value, test.operand))}`;
  if (test.operator === 'exists') return `${test.operand ? '' : 'NOT '}${known(dialect.exists(value))}`;
  return known(condition(value, test, dialect));
}

type Positive = Exclude<Test, { readonly operator: 'isNot' } | { readonly operator: 'exists' }>;

function condition(value: string, test: Positive, dialect: DefinitionDialect): string {
  switch (test.operator) {
    case 'is':
      return dialect.equals(value, test.operand);
    case 'in':
      return test.operand.map((operand) => known(dialect.equals(value, operand))).join(' OR ');
    case 'contains': {
      const { operand } = test;
      const item = `WHEN ${dialect.isList(value)} THEN ${dialect.hasItem(value, operand)}`;
      if (typeof operand !== 'string') return `CASE ${item} END`;
      const part = `WHEN ${dialect.isText(value)} THEN strpos(${dialect.text(value)}, ${literal(operand)}) > 0`;
      return `CASE ${item} ${part} END`;
    }
    default: {
      const { operator, operand } = test;
      const sign = SIGNS[operator];
      if (typeof operand === 'number') return `${dialect.number(value)} ${sign} ${dialect.numberLiteral(operand)}`;
      const text = `CASE WHEN ${dialect.isText(value)} THEN ${dialect.text(value)} END`;
      return `${text}${dialect.binary} ${sign} ${literal(operand)}`;
    }
  }
}

const known = (condition: string) => `coalesce(${condition}, FALSE)`;
