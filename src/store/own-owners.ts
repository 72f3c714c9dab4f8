/** Owners to remember: a process joins as a new owner only after losing its lease, and lost claims are freed soon. */
const LIMIT = 16;

/** Owners that joined from this process. It is alive, so the end of their leases is no abnormal end. */
export class OwnOwners {
  private readonly joined = new Set<number>();

  get owners(): readonly number[] {
    return [...this.joined];
  }

  has(owner: number): boolean {
    return this.joined.has(owner);
  }

  add(owner: number): void {
    this.joined.add(owner);
    const [oldest] = this.joined;
    if (oldest !== undefined && this.joined.size > LIMIT) this.joined.delete(oldest);
  }

  delete(owner: number): void {
    this.joined.delete(owner);
  }
}
