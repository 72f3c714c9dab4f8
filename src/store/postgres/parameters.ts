/** Named parameters of a statement that is written once and run often, so that nobody counts. */
export class Parameters<Name extends string> {
  /** SQL that refers to each parameter, with its type. */
  readonly at: Readonly<Record<Name, string>>;
  /** The number of the first parameter after these. */
  readonly next: number;
  private readonly names: readonly Name[];

  /** @param types - type of each parameter, in the order of their numbers */
  constructor(types: Readonly<Record<Name, string>>) {
    this.names = Object.keys(types) as Name[];
    this.at = Object.fromEntries(this.names.map((name, place) => [name, `$${place + 1}::${types[name]}`])) as Record<
      Name,
      string
    >;
    this.next = this.names.length + 1;
  }

  /** Return the values in the order of their numbers. */
  values(given: Readonly<Record<Name, unknown>>): unknown[] {
    return this.names.map((name) => given[name]);
  }
}
