/** Deletions before a copy, in addition to one per entry. */
const RENEW_AFTER = 256;

/**
 * A map of short-lived entries. A `Map` makes a new table for every few entries, and an old table keeps the later ones
 * alive, with their contents, until the next full collection. A copy has no older tables.
 */
export class PassingMap<K, V> {
  #entries = new Map<K, V>();
  #deletions = 0;

  get(key: K): V | undefined {
    return this.#entries.get(key);
  }

  set(key: K, value: V): void {
    this.#entries.set(key, value);
  }

  delete(key: K): void {
    this.#entries.delete(key);
    this.#deletions += 1;
    if (this.#deletions < RENEW_AFTER + this.#entries.size) return;
    this.#entries = new Map(this.#entries);
    this.#deletions = 0;
  }
}
