import type { FieldPlace, KeyPath, PlaceFilter, Test } from '../../src/definition/definition.ts';
import { compareText, type Said } from './event.ts';

/** The value at a path of nested objects; a list has no keys. */
export function valueAt(from: unknown, path: KeyPath): unknown {
  let value = from;
  for (const key of path) {
    if (typeof value !== 'object' || value === null || Array.isArray(value) || !Object.hasOwn(value, key)) return;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

export function placeIn(event: Said, { part, path }: FieldPlace): unknown {
  return valueAt(event[part], path);
}

export function passesFilters(event: Said, filters: readonly PlaceFilter[]): boolean {
  return filters.every((filter) => passesAll(placeIn(event, filter), filter.tests));
}

export function passesAll(value: unknown, tests: readonly Test[]): boolean {
  return tests.every((test) => passes(value, test));
}

function passes(value: unknown, test: Test): boolean {
  switch (test.operator) {
    case 'is':
      return value === test.operand;
    case 'isNot':
      return value !== test.operand;
    case 'in':
      return test.operand.some((each) => each === value);
    case 'contains':
      if (typeof value === 'string') return typeof test.operand === 'string' && value.includes(test.operand);
      return Array.isArray(value) && value.includes(test.operand);
    case 'exists':
      return (value !== undefined && value !== null) === test.operand;
    default:
      return isOrdered(value, test.operator, test.operand);
  }
}

/** Numbers compare with numbers, text with text. */
function isOrdered(value: unknown, operator: 'gt' | 'gte' | 'lt' | 'lte', operand: string | number): boolean {
  if (typeof value !== typeof operand) return false;
  const sign = typeof operand === 'string' ? compareText(String(value), operand) : Number(value) - operand;
  if (operator === 'gt') return sign > 0;
  if (operator === 'gte') return sign >= 0;
  return operator === 'lt' ? sign < 0 : sign <= 0;
}
