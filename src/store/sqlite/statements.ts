import type { SQLInputValue } from 'node:sqlite';

export type SqliteRow = Record<string, SQLInputValue>;
export type Tuple = readonly SQLInputValue[];

/** Statements on an open database, each prepared once. */
export interface Statements {
  /** Return the number of rows changed. */
  run(sql: string, ...values: SQLInputValue[]): number;
  /** Like `run`, but return the new row's id. */
  insert(sql: string, ...values: SQLInputValue[]): number;
  get<T extends SqliteRow>(sql: string, ...values: SQLInputValue[]): T | undefined;
  all<T extends SqliteRow>(sql: string, ...values: SQLInputValue[]): T[];
  /** Return rows as arrays, which cost a third of objects. */
  tuples<T extends Tuple>(sql: string, ...values: SQLInputValue[]): T[];
}
