import type { KeyPath } from '../../../src/definition/places.ts';

/** Views of the event log that compiled definitions read (docs/event-log.md). */
type LogView = 'events' | 'tracks' | 'pages' | 'screens' | 'identifies' | 'identities';

/** SQL for JSON values, which differs by database. Every expression is null for a missing value. */
export interface DefinitionDialect {
  /** A view's qualified name, which no user's table has. */
  view(name: LogView): string;
  /** JSON text as a JSON value. */
  json(text: string): string;
  /** The value at a path of nested objects. Lists have no keys. */
  at(json: string, path: KeyPath): string;
  /** Tests of a JSON value's type. A scalar is text, a number or a boolean. */
  isText(value: string): string;
  isNumber(value: string): string;
  isList(value: string): string;
  isBoolean(value: string): string;
  isScalar(value: string): string;
  /** True if there is a value other than JSON's null. */
  exists(value: string): string;
  /** True if a JSON list has an item of which a condition is true. */
  hasItem(list: string, condition: (item: string) => string): string;
  /** A JSON text, unquoted. */
  text(value: string): string;
  /** A JSON number as a number of SQL. */
  number(value: string): string;
  numberLiteral(value: number): string;
  /** An ISO 8601 text as a TIMESTAMP in UTC; null for any other text. */
  instant(text: string): string;
  /** Milliseconds since 1970 of a TIMESTAMP. */
  millis(timestamp: string): string;
  /** The keys of a JSON object as rows; none of any other value. */
  keys(json: string): string;
  /** The bucket of a split, of a text. */
  bucket(text: string): string;
  /**
   * A query for (user_id, total, times) of rows (user_id, amount). The total is the exact sum of the decimals that JSON
   * has, as a double, and null beyond its range.
   */
  totals(rows: string): string;
  /** The quotient of a total and its number of rows. */
  average(total: string, times: string): string;
  /** A list of JSON values, in this order. */
  list(value: string, order: string): string;
  /** A suffix that makes text compare by its bytes, whatever its collation. */
  readonly binary: string;
}

/** SQL of both dialects for a time before now. */
export const ago = (milliseconds: number) => `$now - INTERVAL '${milliseconds} milliseconds'`;
