import type { SQLInputValue } from 'node:sqlite';
import type { Statements } from './statements.ts';

/** Rows of one statement; what is left over is written by as few of them as can be. */
const SIZES = [32, 8, 2, 1] as const;
/** Rows that are worth a statement. */
export const [MOST] = SIZES;

/** Writes rows by the dozen: a row of a statement for many costs two thirds of one by itself. */
export class ManyRows {
  private readonly own: number;
  private readonly statements: readonly (readonly [size: number, sql: string])[];

  /**
   * @param insert - `INSERT INTO table (columns)`
   * @param row - of its VALUES. What all rows share has numbers and comes first; the others go without, since Node finds a numbered
   *   one by a look at all before it.
   */
  constructor(insert: string, row: string) {
    this.own = row.match(/\?(?!\d)/g)?.length ?? 0;
    this.statements = SIZES.map((size) => [size, `${insert} VALUES ${new Array(size).fill(row).join(', ')}`]);
  }

  /**
   * Writes all rows; returns the id of the last. They are numbered without gaps.
   *
   * @param values - those that each row has for itself, row by row
   */
  write(db: Statements, shared: readonly SQLInputValue[], values: readonly SQLInputValue[]): number {
    let last = 0;
    let at = 0;
    for (const [size, sql] of this.statements) {
      const length = size * this.own;
      for (; values.length - at >= length; at += length) {
        last = db.insert(sql, ...shared, ...values.slice(at, at + length));
      }
    }
    return last;
  }
}
