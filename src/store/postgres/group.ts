interface Waiting<T, R> {
  readonly item: T;
  readonly resolve: (result: R) => void;
  readonly reject: (error: unknown) => void;
}

/** Rows in one group at most, unless a single item has more. */
const LIMIT = 4_000;

/** When a group waits for more to come. */
export interface Patience<T> {
  isWorthwhile(rows: number, first: T): boolean;
  /** Resolves once a group that is not worthwhile is written all the same. */
  pause(): Promise<void>;
}

/** Group commit: what comes while one group is being written goes into the next, with one round trip and one sync to disk. */
export class Group<T, R> {
  private readonly perform: (items: readonly T[]) => Promise<readonly R[]>;
  private readonly rows: (item: T) => number;
  private readonly patience: Patience<T> | null;
  private queue: Waiting<T, R>[] = [];
  private onMore: () => void = () => undefined;
  private isWorking = false;

  /** @param perform - resolves to the result of each item */
  constructor(
    perform: (items: readonly T[]) => Promise<readonly R[]>,
    rows: (item: T) => number,
    patience: Patience<T> | null = null,
  ) {
    this.perform = perform;
    this.rows = rows;
    this.patience = patience;
  }

  add(item: T): Promise<R> {
    return new Promise((resolve, reject) => {
      this.queue.push({ item, resolve, reject });
      this.onMore();
      if (!this.isWorking) void this.work();
    });
  }

  private async work(): Promise<void> {
    this.isWorking = true;
    // Those of the same turn go together.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.queue.length > 0) {
      await this.gather();
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

  private async gather(): Promise<void> {
    const { patience } = this;
    if (!patience || this.isWorthwhile(patience)) return;
    const more = new Promise<void>((resolve) => {
      this.onMore = () => {
        if (this.isWorthwhile(patience)) resolve();
      };
    });
    await Promise.race([more, patience.pause()]);
    this.onMore = () => undefined;
  }

  private isWorthwhile(patience: Patience<T>): boolean {
    const [first] = this.queue;
    const rows = this.queue.reduce((sum, { item }) => sum + this.rows(item), 0);
    return first === undefined || patience.isWorthwhile(rows, first.item);
  }

  private take(): Waiting<T, R>[] {
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
