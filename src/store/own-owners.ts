/** How many are remembered: a process takes a new owner only when it lost its lease, and what it lost is freed soon. */
const LIMIT = 16;

/** Owners that joined from this process: it lives, so that the end of their leases is no abnormal end. */
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
