/** The right to act for something, given by a lease; a larger token supersedes a smaller one. */
export interface Fence {
  readonly lease: string;
  readonly token: number;
}

/** A process that delivers. */
export interface Owner {
  readonly id: number;
  /** Id of the roster that it published; null until it has. */
  readonly roster: string | null;
}

/** The destinations that a process knows. Processes of one configuration share one roster. */
export interface Roster {
  readonly destinations: readonly RosterEntry[];
  /** Its `delivery.removedAfter`, in milliseconds. */
  readonly removedAfter: number;
}

export interface RosterEntry {
  readonly name: string;
  /** A disabled destination is known, and not served. */
  readonly enabled: boolean;
  readonly sources: readonly string[];
}

/** A destination with pending deliveries that no live process knows. */
export interface Orphan {
  readonly destination: string;
  readonly pending: number;
  /** When it was first seen so; null before. */
  readonly since: number | null;
  /** How long processes have delivered without knowing it, in milliseconds. */
  readonly unknownFor: number;
}

/** The processes that share a store: leases, what each knows, what none of them does. */
export interface FleetRecords {
  /** Takes a lease for `ttl` ms; null while another holds it. The fence's token rises with every taking. */
  takeLease(lease: string, ttl: number): Promise<Fence | null>;
  renewLease(fence: Fence, ttl: number): Promise<boolean>;
  releaseLease(fence: Fence): Promise<void>;
  /**
   * Whether the clocks are to be trusted by whoever deletes what is old: this process's, as given, and the store's. One that is
   * more than a day ahead of where it was is doubted for a day. Processes that share a store trust the one that is behind.
   */
  trustsClocks(wall: number): Promise<boolean>;
  /** The owners whose leases live. */
  owners(): Promise<readonly Owner[]>;
  /** Publishes what a process knows from now on. The time of orphans among it starts anew. */
  publish(owner: number, roster: Roster): Promise<void>;
  /** Rosters by id; those that are gone are missing. */
  rosters(ids: readonly string[]): Promise<ReadonlyMap<string, Roster>>;
  /** The destinations with pending deliveries that no live process knows. */
  orphans(): Promise<readonly Orphan[]>;
  /**
   * As `orphans`, and adds `elapsed` milliseconds to those that were so at the last count. Counts nothing while a live
   * process has not published. Throws `fence_lost`.
   */
  countOrphans(fence: Fence, elapsed: number): Promise<readonly Orphan[]>;
}
