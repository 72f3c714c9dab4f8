import type { DeletedIds } from './deleted-ids.ts';
import type { LoggedRow } from './event-log.ts';

export const REGULATION_TYPES = ['DELETE_ONLY', 'SUPPRESS_WITH_DELETE', 'SUPPRESS_ONLY', 'UNSUPPRESS'] as const;

export type RegulationType = (typeof REGULATION_TYPES)[number];

export type RegulationStatus = 'INITIALIZED' | 'RUNNING' | 'FINISHED' | 'FAILED' | 'PARTIAL_SUCCESS';

export const deletes = (type: RegulationType): boolean => type === 'DELETE_ONLY' || type === 'SUPPRESS_WITH_DELETE';

export const isOver = (status: RegulationStatus): boolean => status !== 'INITIALIZED' && status !== 'RUNNING';

export interface NoticeConfirmation {
  readonly regulation: string;
  readonly destination: string;
  /** Id of the notice within the request. */
  readonly notice: string;
  readonly at: number;
}

/** Number of a request's notices that a destination has confirmed. */
export interface Confirmed {
  readonly regulation: string;
  readonly destination: string;
  readonly notices: number;
  /** Time of the last confirmation. */
  readonly at: number;
}

export interface Regulation {
  readonly id: string;
  readonly type: RegulationType;
  readonly status: RegulationStatus;
  /** Null for every source. */
  readonly sources: readonly string[] | null;
  /** Emptied when no longer needed; from then on only `hashes` are kept. */
  readonly userIds: readonly string[];
  readonly subjects: number;
  /** Keyed hashes of the users and their former ids, made by the store when the ids are dropped. */
  readonly hashes: readonly string[];
  /** The ids of a request, resolved before anything is done; absent before, and once they are no longer needed. */
  readonly ids?: DeletedIds | undefined;
  /** Destinations with data about the users (indexes into `ids.notified`), found before deleting; null before. */
  readonly told: readonly Told[] | null;
  /** True if something could not be deleted. */
  readonly partial: boolean;
  /** The caller who filed it, as the audit log names them. */
  readonly by?: string;
  /** Number of notices per destination; absent until they are accepted. */
  readonly notices?: Readonly<Record<string, number>>;
  readonly createdAt: number;
  readonly finishedAt: number | null;
}

/** A destination that received data about users from a source. */
export interface Told {
  readonly source: string;
  readonly destination: string;
  readonly users: readonly number[];
}

/** Progress of deletions. Each request that deletes raises the epoch once, before it deletes anything. */
export interface Deletions {
  readonly epoch: number;
  /** Requests up to this epoch are over. */
  readonly settled: number;
  /** The event log is rid of the users of requests up to this epoch: what it says of them is newer. */
  readonly unlogged: number;
  /** True if a request raised the epoch beyond the one asked for. */
  readonly some: boolean;
  readonly suppresses: boolean;
}

/** A page of `told` results; `users` are ids. */
export interface ToldPage {
  readonly cursor: string | null;
  readonly told: readonly { readonly source: string; readonly destination: string; readonly user: string }[];
}

/** The ids that a message names. */
export interface SaidIds extends Omit<LoggedRow, 'event' | 'properties' | 'traits' | 'context'> {
  readonly source: string;
}

export interface SaidIdsPage {
  readonly cursor: string | null;
  readonly said: readonly SaidIds[];
}

/** The notices of each destination, and how many of them it took, as JSON. */
export function confirmedNotices(
  id: string,
  notices: Readonly<Record<string, number>>,
  confirmed: readonly Confirmed[],
) {
  return Object.entries(notices).map(([destination, notices]) => {
    const taken = confirmed.find((each) => each.regulation === id && each.destination === destination);
    const confirmedAt = taken ? new Date(taken.at).toISOString() : null;
    return { destination, notices, confirmed: taken?.notices ?? 0, confirmedAt };
  });
}

export interface DeletionRecords {
  /**
   * Saves a request. A request that deletes raises the deletion epoch in the transaction that first saves it with its
   * resolved ids. When it ends, only keyed hashes of its users are kept.
   */
  saveRegulation(regulation: Regulation): Promise<void>;
  /** Replaces a request's user ids with keyed hashes, and keeps the number of notices per destination. */
  stripRegulation(id: string, notices?: Regulation['notices']): Promise<void>;
  regulation(id: string): Promise<Regulation | null>;
  /** Regulations neither finished nor failed, oldest first. */
  openRegulations(): Promise<readonly Regulation[]>;
  /** Newest first; with `before` (an id) only older ones. */
  regulations(filter: { readonly before?: string; readonly limit: number }): Promise<readonly Regulation[]>;
  /** Saves confirmations; known ones change nothing. */
  confirmNotices(confirmations: readonly NoticeConfirmation[]): Promise<void>;
  confirmed(regulations: readonly string[]): Promise<readonly Confirmed[]>;
  /** Progress of deletions, compared with an epoch; with the newest if null. */
  deletions(since: number | null): Promise<Deletions>;
  /** Says that the event log is rid of the users of these requests, or that it may have them again. */
  setUnlogged(regulations: readonly string[], areUnlogged: boolean): Promise<void>;
  /** Returns those of `users` whose deletion raised the epoch beyond `since`. */
  deletedSince(users: readonly string[], source: string, since: number): Promise<readonly string[]>;
  /** As `deletedSince`, and those who are suppressed for the source. */
  excluded(users: readonly string[], source: string, since: number): Promise<readonly string[]>;
  /**
   * Finds destinations that received data about these users, from attempts, kept messages, dead letters and waiting
   * retries. Returns a page at a time, as `erase` does.
   */
  told(users: readonly string[], sources: readonly string[] | null, cursor: string | null): Promise<ToldPage>;
  /** The ids that kept messages name: in those about these ids, or in all aliases if null. A page at a time. */
  saidIds(ids: readonly string[] | null, cursor: string | null): Promise<SaidIdsPage>;
  /**
   * Makes `accept` skip these users' messages from now on, or no longer; keeps only keyed hashes of their ids.
   *
   * @param named - for each the user as whose former id it is suppressed, and until whose suppression ends; else itself
   */
  suppress(
    users: readonly string[],
    sources: readonly string[] | null,
    on: boolean,
    named?: readonly string[],
  ): Promise<void>;
  /** This store's key for the hashes that stand in for user ids. */
  hashKey(): Promise<string>;
}
