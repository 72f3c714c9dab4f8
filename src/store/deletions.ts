export const REGULATION_TYPES = ['DELETE_ONLY', 'SUPPRESS_WITH_DELETE', 'SUPPRESS_ONLY', 'UNSUPPRESS'] as const;

export type RegulationType = (typeof REGULATION_TYPES)[number];

export type RegulationStatus = 'INITIALIZED' | 'RUNNING' | 'FINISHED' | 'FAILED' | 'PARTIAL_SUCCESS';

/** Whether requests of this type take their users out. */
export const deletes = (type: RegulationType): boolean => type === 'DELETE_ONLY' || type === 'SUPPRESS_WITH_DELETE';

/** Whether nothing more is done about a request. */
export const isOver = (status: RegulationStatus): boolean => status !== 'INITIALIZED' && status !== 'RUNNING';

/** That a destination took a notice of a deletion. */
export interface NoticeConfirmation {
  /** The request's id. */
  readonly regulation: string;
  readonly destination: string;
  /** Which of the request's notices. */
  readonly notice: string;
  readonly at: number;
}

/** Notices of a request that a destination took. */
export interface Confirmed {
  readonly regulation: string;
  readonly destination: string;
  readonly notices: number;
  /** When it took the last of them. */
  readonly at: number;
}

/** A deletion request and what became of it. */
export interface Regulation {
  readonly id: string;
  readonly type: RegulationType;
  readonly status: RegulationStatus;
  /** Null for every source. */
  readonly sources: readonly string[] | null;
  /** Empty once nothing more needs them: then only `hashes` are kept. */
  readonly userIds: readonly string[];
  /** Number of users. */
  readonly subjects: number;
  /** Keyed hashes of the ids, made by the store when the ids are dropped. */
  readonly hashes: readonly string[];
  /** Destinations that heard of users (places in `userIds`), found before the users were taken out; null before that. */
  readonly told: readonly Told[] | null;
  /** Whether something could not be taken out. */
  readonly partial: boolean;
  /** The caller who filed it, as the audit log names them. */
  readonly by?: string;
  /** How many notices each destination gets; absent before they were accepted. */
  readonly notices?: Readonly<Record<string, number>>;
  readonly createdAt: number;
  readonly finishedAt: number | null;
}

/** A destination that heard of users from a source. */
export interface Told {
  readonly source: string;
  readonly destination: string;
  readonly users: readonly number[];
}

/** Where deletions stand. Each request that deletes raises the epoch once, before it takes anything out. */
export interface Deletions {
  readonly epoch: number;
  /** Requests up to this epoch are over. */
  readonly settled: number;
  /** Whether any request raised the epoch beyond the one asked for. */
  readonly some: boolean;
  /** Whether anybody is suppressed. */
  readonly suppresses: boolean;
}

/** A page of what `told` finds; `users` are ids. */
export interface ToldPage {
  readonly cursor: string | null;
  readonly told: readonly { readonly source: string; readonly destination: string; readonly user: string }[];
}

/** Deletion requests, destinations that heard of their users, and users who are kept out. */
export interface DeletionRecords {
  /**
   * Records a request. A request that deletes raises the deletion epoch in the transaction that first records it as
   * `RUNNING`. Once it is over, only keyed hashes of its users are kept.
   */
  saveRegulation(regulation: Regulation): Promise<void>;
  /** Drops a request's user ids; keyed hashes of them are kept, and how many notices each destination gets. */
  stripRegulation(id: string, notices?: Regulation['notices']): Promise<void>;
  regulation(id: string): Promise<Regulation | null>;
  /** Regulations neither finished nor failed, oldest first. */
  openRegulations(): Promise<readonly Regulation[]>;
  /** Newest first; with `before` (an id) only older ones. */
  regulations(filter: { readonly before?: string; readonly limit: number }): Promise<readonly Regulation[]>;
  /** One that is known already changes nothing. */
  confirmNotices(confirmations: readonly NoticeConfirmation[]): Promise<void>;
  confirmed(regulations: readonly string[]): Promise<readonly Confirmed[]>;
  /** Where deletions stand, seen from an epoch; from the newest when null. */
  deletions(since: number | null): Promise<Deletions>;
  /** Those of `users` who are suppressed for a source, or whose deletion raised the epoch beyond `since`. */
  excluded(users: readonly string[], source: string, since: number): Promise<readonly string[]>;
  /**
   * Destinations that heard of these users, as far as attempts, kept messages, dead letters and waiting retries show.
   * A page at a time, as `erase`.
   */
  told(users: readonly string[], sources: readonly string[] | null, cursor: string | null): Promise<ToldPage>;
  /** Has `accept` pass over these users' messages from now on (or no longer); only keyed hashes of their ids are kept. */
  suppress(users: readonly string[], sources: readonly string[] | null, on: boolean): Promise<void>;
  /** A key of this store for hashes that stand in for user ids. */
  hashKey(): Promise<string>;
}
