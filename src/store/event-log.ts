import type { Fence } from './fence.ts';

/** The right to seal, merge and delete, over all processes. */
export const EVENT_LOG_LEASE = 'event-log';

/** One file of the log: events of one source that were received on one day, in UTC. */
export interface LogFile {
  /** Its path within the log's folder. */
  readonly name: string;
  readonly source: string;
  /** YYYY-MM-DD. */
  readonly day: string;
  readonly events: number;
  readonly bytes: number;
}

export interface LogState {
  /** Rises whenever events move between tail and files. */
  readonly version: number;
  readonly files: readonly LogFile[];
  readonly tail: {
    readonly events: number;
    readonly bytes: number;
    /** When its oldest event was accepted, in store time; null when it is empty. */
    readonly since: number | null;
    /** Its last part; 0 when it is empty. */
    readonly last: number;
  };
}

/** Events of the tail that were accepted together. */
export interface TailPart {
  readonly id: number;
  readonly source: string;
  /** Their bodies, one on each line. */
  readonly bodies: string;
}

/**
 * The log of a store on one machine: its hot tail is a table, the rest are files that the store lists. Files are listed and
 * the tail is emptied of them in one transaction, so that a crash at any moment loses and doubles nothing.
 */
export interface FileLog {
  readonly kind: 'files';
  state(): Promise<LogState>;
  /** Parts after `after` up to `upTo`, in order: some megabytes, at least one part while there are any. */
  tail(after: number, upTo: number): Promise<readonly TailPart[]>;
  /** Says which files are about to be written: should the process end, they are leftovers. Throws `fence_lost`. */
  willWrite(fence: Fence, names: readonly string[]): Promise<void>;
  /** These files take the place of the tail's parts up to `upTo`. Throws `fence_lost`. */
  seal(fence: Fence, upTo: number, files: readonly LogFile[]): Promise<void>;
  /** These files take the place of others, which are leftovers from now on. Throws `fence_lost`. */
  replace(fence: Fence, gone: readonly string[], files: readonly LogFile[]): Promise<void>;
  /** Files that are not part of the log, and since when, in store time. */
  leftovers(): Promise<readonly { readonly name: string; readonly since: number }[]>;
  /** Forgets leftovers that are removed from the disk. */
  removed(names: readonly string[]): Promise<void>;
  /** Number of the last deletion that was carried out in the log, as it was given to `deleted`. */
  deletions(): Promise<number>;
  deleted(last: number): Promise<void>;
}

/** The log of a store that processes share: a table, in parts by the day of receipt. */
export interface TableLog {
  readonly kind: 'table';
  /** Makes parts for this day and the next ones. @param now - milliseconds since 1970 */
  prepare(now: number): Promise<void>;
  /** Drops what was received before this day (YYYY-MM-DD). */
  dropBefore(day: string): Promise<void>;
  /** Deletes the events of users, and of the ids that are theirs. Only those of `sources`, or of any when null. */
  forget(users: readonly string[], sources: readonly string[] | null): Promise<void>;
  summary(): Promise<LogSummary>;
  /** On disk, and how many days have a part; counts nothing. */
  size(): Promise<{ readonly bytes: number; readonly parts: number }>;
}

/** Size and span of the log. */
interface LogSummary {
  readonly events: number;
  readonly bytes: number;
  /** First and last day of receipt, YYYY-MM-DD; null when it is empty. */
  readonly from: string | null;
  readonly to: string | null;
}

export type EventLog = FileLog | TableLog;
