import type { SQLInputValue } from 'node:sqlite';
import type { Statements } from './statements.ts';

/** Rows per statement. The remainder is written by as few statements as possible. */
const SIZES = [32, 8, 2, 1] as const;
export const [MOST] = SIZES;

/** Writes many rows per statement: in a statement for many, a row costs two thirds of one written alone. */
export class ManyRows {
  private readonly own: number;
  private readonly statements: readonly (readonly [size: number, sql: string])[];

  /**
   * @param insert - `INSERT INTO table (columns)`
   * @param row - the VALUES of a row. Shared parameters are numbered and come first. The others are not, since Node
   *   scans all before a numbered one to find it.
   */
  constructor(insert: string, row: string) {
    this.own = row.match(/\?(?!\d)/g)?.length ?? 0;
    this.statements = SIZES.map((size) => [size, `${insert} VALUES ${new Array(size).fill(row).join(', ')}`]);
  }

  /**
   * Write all rows and return the id of the last. Ids have no gaps.
   *
   * @param values - the values that are not shared, row by row
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
