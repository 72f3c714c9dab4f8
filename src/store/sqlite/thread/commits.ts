interface Commit {
  /** True if it must survive a power loss before it is answered. */
  readonly needsSync: boolean;
  readonly answer: () => void;
}

/**
 * Commits that are written but may not be on disk. Each is answered in order, once all commits up to it are on disk.
 * Otherwise somebody could act on a commit that a power loss undoes.
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

  /** Start the next sync. Commits during a sync wait for the one after it. */
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
