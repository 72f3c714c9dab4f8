import type { SQLInputValue } from 'node:sqlite';

export type SqliteRow = Record<string, SQLInputValue>;
export type Tuple = readonly SQLInputValue[];

/** Statements on an open database; each is prepared once. */
export interface Statements {
  /** The number of rows changed. */
  run(sql: string, ...values: SQLInputValue[]): number;
  /** As `run`, but returns the new row's id. */
  insert(sql: string, ...values: SQLInputValue[]): number;
  get<T extends SqliteRow>(sql: string, ...values: SQLInputValue[]): T | undefined;
  all<T extends SqliteRow>(sql: string, ...values: SQLInputValue[]): T[];
  /** Rows as arrays, which cost a third of objects. */
  tuples<T extends Tuple>(sql: string, ...values: SQLInputValue[]): T[];
}
