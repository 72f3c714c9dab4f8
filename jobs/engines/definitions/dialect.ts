import type { KeyPath } from '../../../src/definition/definition.ts';
import type { Scalar } from '../../../src/definition/operators.ts';

/** Views of the event log that compiled definitions read (docs/event-log.md). */
type LogView = 'events' | 'tracks' | 'identifies' | 'identities';

/** Where databases write JSON values their own way. All of it is null where there is no such value. */
export interface DefinitionDialect {
  /** By the name that no table of somebody else takes. */
  view(name: LogView): string;
  /** The value at a path of nested objects; a list has no keys. */
  at(json: string, path: KeyPath): string;
  /** Whether a JSON value is text, a number, a list, or either of text, number and boolean. */
  isText(value: string): string;
  isNumber(value: string): string;
  isList(value: string): string;
  isScalar(value: string): string;
  /** Whether there is a value that is not JSON's null. */
  exists(value: string): string;
  /** Whether a JSON value has the type and the value of the operand. */
  equals(value: string, operand: Scalar): string;
  /** Whether a JSON list has such an item. */
  hasItem(list: string, operand: Scalar): string;
  /** A JSON text, unquoted. */
  text(value: string): string;
  /** A JSON number as a number of SQL. */
  number(value: string): string;
  numberLiteral(value: number): string;
  /** A sum that depends as little as can be on the order of its rows. */
  sum(number: string): string;
  /** A list of JSON values, in this order. */
  list(value: string, order: string): string;
  /** Has text compared by its bytes, whatever its collation. */
  readonly binary: string;
}
