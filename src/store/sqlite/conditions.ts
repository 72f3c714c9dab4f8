import type { SQLInputValue } from 'node:sqlite';

/** A WHERE clause made of the filters that were given. */
export class Conditions {
  readonly values: SQLInputValue[] = [];
  private readonly clauses: string[] = [];

  equals(column: string, value: string | undefined, translate?: (value: string) => number | null): this {
    if (value === undefined) return this;
    // -1 stands for a name that no row holds.
    return this.add(`${column} = ?`, translate ? (translate(value) ?? -1) : value);
  }

  from(column: string, value: number | undefined): this {
    return value === undefined ? this : this.add(`${column} >= ?`, value);
  }

  before(column: string, value: number | undefined): this {
    return value === undefined ? this : this.add(`${column} < ?`, value);
  }

  after(column: string, value: number | undefined): this {
    return value === undefined ? this : this.add(`${column} > ?`, value);
  }

  prefix(column: string, value: string | undefined): this {
    if (value === undefined) return this;
    return this.add(`${column} >= ?`, value).add(`${column} < ?`, `${value}\u{10ffff}`);
  }

  oneOf(column: string, values: readonly number[] | undefined): this {
    return values === undefined
      ? this
      : this.add(`${column} IN (SELECT value FROM json_each(?))`, JSON.stringify(values));
  }

  where(): string {
    return this.clauses.length > 0 ? `WHERE ${this.clauses.join(' AND ')}` : '';
  }

  private add(clause: string, value: SQLInputValue): this {
    this.clauses.push(clause);
    this.values.push(value);
    return this;
  }
}
