interface WaitingWrite<T, R> {
  readonly item: T;
  readonly resolve: (result: R) => void;
  readonly reject: (error: unknown) => void;
}

/** Rows in one group at most, unless a single item has more. */
const LIMIT = 4_000;

/** Group commit: items added while a group is written form the next, with one round trip and one sync to disk. */
export class GroupCommit<T, R> {
  private readonly perform: (items: readonly T[]) => Promise<readonly R[]>;
  private readonly rows: (item: T) => number;
  private queue: WaitingWrite<T, R>[] = [];
  private isWorking = false;

  /** @param perform - resolves to a result per item */
  constructor(perform: (items: readonly T[]) => Promise<readonly R[]>, rows: (item: T) => number) {
    this.perform = perform;
    this.rows = rows;
  }

  add(item: T): Promise<R> {
    return new Promise((resolve, reject) => {
      this.queue.push({ item, resolve, reject });
      if (!this.isWorking) void this.work();
    });
  }

  private async work(): Promise<void> {
    this.isWorking = true;
    // Items of one pass of the event loop form a group.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.queue.length > 0) {
      const group = this.take();
      try {
        const results = await this.perform(group.map(({ item }) => item));
        for (const [index, { resolve }] of group.entries()) resolve(results[index] as R);
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
    }
    this.isWorking = false;
  }

  private take(): WaitingWrite<T, R>[] {
    let rows = 0;
    let count = 0;
    for (const { item } of this.queue) {
      rows += this.rows(item);
      if (count > 0 && rows > LIMIT) break;
      count += 1;
    }
    return this.queue.splice(0, count);
  }
}
