interface Commit {
  /** Whether it must outlive a loss of power before anyone hears of it. */
  readonly needsSync: boolean;
  readonly answer: () => void;
}

/**
 * Commits that are written, but perhaps not on disk. Each is answered in their order, once all that was committed until then is on
 * disk: else somebody could act on what a loss of power takes back.
 */
export class Commits {
  private readonly sync: () => Promise<void>;
  private readonly onSynced: () => void;
  private readonly onFailed: (error: Error) => void;
  private inSync: Commit[] = [];
  private next: Commit[] = [];

  constructor(sync: () => Promise<void>, onSynced: () => void, onFailed: (error: Error) => void) {
    this.sync = sync;
    this.onSynced = onSynced;
    this.onFailed = onFailed;
  }

  get isSyncing(): boolean {
    return this.inSync.length > 0;
  }

  add(commit: Commit): void {
    this.next.push(commit);
    if (!this.isSyncing) this.goOn();
  }

  /** One sync at a time; what is committed meanwhile waits for the next. */
  private goOn(): void {
    const first = this.next.findIndex(({ needsSync }) => needsSync);
    for (const { answer } of this.next.splice(0, first === -1 ? this.next.length : first)) answer();
    if (this.next.length === 0) return;
    this.inSync = this.next;
    this.next = [];
    this.sync().then(
      () => {
        const synced = this.inSync;
        this.inSync = [];
        for (const { answer } of synced) answer();
        this.goOn();
        this.onSynced();
      },
      (error) => this.onFailed(error),
    );
  }
}
