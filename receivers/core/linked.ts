/** An entry of one {@link LinkedList}. */
export class Linked {
  before: Linked | undefined;
  after: Linked | undefined;
}

/** Open entries, deleted in one step. A `Set` makes a new table for every few entries added and deleted. */
export class LinkedList<T extends Linked> {
  #first: T | undefined;
  #last: T | undefined;

  add(entry: T): void {
    entry.before = this.#last;
    if (this.#last === undefined) this.#first = entry;
    else this.#last.after = entry;
    this.#last = entry;
  }

  /** False when the entry is not in the list. */
  delete(entry: T): boolean {
    const { before, after } = entry;
    if (before === undefined && this.#first !== entry) return false;
    if (before === undefined) this.#first = after as T | undefined;
    else before.after = after;
    if (after === undefined) this.#last = before as T | undefined;
    else after.before = before;
    entry.before = undefined;
    entry.after = undefined;
    return true;
  }

  /** From the oldest to the newest, without entries deleted during the iteration. */
  *[Symbol.iterator](): Generator<T> {
    for (let entry = this.#first; entry !== undefined; ) {
      const next = entry.after as T | undefined;
      yield entry;
      entry = next;
    }
  }
}
