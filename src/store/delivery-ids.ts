/** Delivery ids that stay unique when a database is recreated: receivers may remember the old one's ids. */
export class DeliveryIds {
  readonly store: string;
  private readonly prefix: string;

  /** @param store - the store's own id */
  constructor(store: string) {
    this.store = store;
    this.prefix = `${store}-`;
  }

  name(id: number): string {
    return this.prefix + id.toString(36);
  }

  /** Returns -1, which no row has, for an id of another store. */
  number(name: string): number {
    const digits = name.slice(this.prefix.length);
    return name.startsWith(this.prefix) && /^[0-9a-z]{1,11}$/.test(digits) ? Number.parseInt(digits, 36) : -1;
  }
}
