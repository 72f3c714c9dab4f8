import { storable } from './arrays.ts';

/** A WHERE clause made of the filters that were given, with numbered parameters. */
export class Conditions {
  readonly values: unknown[] = [];
  private readonly clauses: string[] = [];

  /** @param clause - SQL with `?` for the value */
  add(clause: string, value: unknown): this {
    if (value === undefined) return this;
    this.values.push(typeof value === 'string' ? storable(value) : value);
    this.clauses.push(clause.replaceAll('?', `$${this.values.length}`));
    return this;
  }

  /** The number of a parameter outside the clause. */
  parameter(value: unknown): string {
    this.values.push(value);
    return `$${this.values.length}`;
  }

  where(): string {
    return this.clauses.length > 0 ? `WHERE ${this.clauses.join(' AND ')}` : '';
  }
}
