/** The right to act, given by a lease; a larger token supersedes a smaller one. */
export interface Fence {
  readonly lease: string;
  readonly token: number;
}

/** A process that delivers. */
export interface Owner {
  readonly id: number;
  /** Id of its published roster; null until it has published one. */
  readonly roster: string | null;
}

/** The destinations that a process knows. Processes with the same configuration share a roster. */
export interface Roster {
  readonly destinations: readonly RosterEntry[];
  /** The process's `delivery.removedAfter`, in milliseconds. */
  readonly removedAfter: number;
}

export interface RosterEntry {
  readonly name: string;
  /** A disabled destination is known but not served. */
  readonly enabled: boolean;
  readonly sources: readonly string[];
}

/** A destination with pending deliveries that no live process knows. */
export interface Orphan {
  readonly destination: string;
  readonly pending: number;
  /** Time it was first seen without such a process; null before. */
  readonly since: number | null;
  /** Time during which processes delivered without knowing it, in milliseconds. */
  readonly unknownFor: number;
}

export interface FleetRecords {
  /** Takes a lease for `ttl` ms; null while another process holds it. Each taking raises the fence's token. */
  takeLease(lease: string, ttl: number): Promise<Fence | null>;
  renewLease(fence: Fence, ttl: number): Promise<boolean>;
  releaseLease(fence: Fence): Promise<void>;
  /**
   * True if old data may be deleted by the clocks: this process's, as given, and the store's. A clock that jumps more
   * than a day ahead is distrusted for a day. Processes that share a store trust the one that is behind.
   */
  trustsClocks(wall: number): Promise<boolean>;
  owners(): Promise<readonly Owner[]>;
  /** Publishes the destinations that a process knows from now on. Resets the orphan time of those. */
  publish(owner: number, roster: Roster): Promise<void>;
  /** Rosters by id; removed ones are missing. */
  rosters(ids: readonly string[]): Promise<ReadonlyMap<string, Roster>>;
  orphans(): Promise<readonly Orphan[]>;
  /**
   * As `orphans`, and adds `elapsed` milliseconds to those already orphaned at the last count. Counts nothing while a
   * live process has not published. Throws `fence_lost`.
   */
  countOrphans(fence: Fence, elapsed: number): Promise<readonly Orphan[]>;
}
