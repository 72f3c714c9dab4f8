/** Beside as many deletions as there are entries. */
const RENEW_AFTER = 256;

/**
 * Entries that come and go. A `Map` makes a new table for every few of them, and an old table keeps the later ones alive,
 * with what was in them, until the next full collection. A copy has no table before it.
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
