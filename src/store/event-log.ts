import type { MESSAGE_PARTS } from '../definition/definition.ts';
import type { Fence } from './fleet.ts';

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

/** Later than any day: the first one of a log without events. */
export const NO_DAY = 100_000_000;

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
    /** The last part that there ever was. */
    readonly newest: number;
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
  /** No event was received before this day, counted from 1970. */
  firstDay(): Promise<number>;
  state(): Promise<LogState>;
  /** Parts after `after` up to `upTo`, in order: some megabytes, at least one part while there are any. */
  tail(after: number, upTo: number): Promise<readonly TailPart[]>;
  /**
   * Parts after `after`, in order, some megabytes; those too that were sealed before the live computation had read them.
   * `lost` is the last part that nobody can read any more in this way.
   */
  unread(after: number): Promise<{ readonly parts: readonly TailPart[]; readonly lost: number }>;
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

/** The part of the log that live membership is computed from. */
export interface Wanted {
  /** Track events, by name. */
  readonly events: ReadonlyMap<string, WantedEvent>;
  /** Whether `identify` is asked for its traits. */
  readonly traits: boolean;
  /** Whether it matters who was there, whatever they did. */
  readonly everybody: boolean;
}

/** The part of the track events of one name. */
export interface WantedEvent {
  /** Those that happened before do not count, in milliseconds since 1970; null where all do. */
  readonly since: number | null;
  readonly parts: ReadonlySet<(typeof MESSAGE_PARTS)[number]>;
  /** Whether the order of events makes a difference, down to their ids. */
  readonly ids: boolean;
}

/** One thing that the log says of an id. Parts and message ids that are not wanted are left out. */
export interface ScannedRow extends Omit<LoggedRow, 'userId' | 'anonymousId' | 'previousId'> {
  readonly isAnonymous: boolean;
  readonly id: string;
  /** The user that the id belongs to in the end; null for an anonymous id of nobody. */
  readonly person: string | null;
  /** A user that it was said to belong to; null where it is something else that is said. */
  readonly linked: string | null;
}

/** The log as it was at one moment, by people: who is who is found out already. */
export interface LogScan {
  /** Of the latest receipt, in milliseconds since 1970; 0 for nothing. */
  readonly newest: number;
  /** How many rows there are, of both. */
  readonly rows: number;
  /** Person after person, and of each id after id: all that is known of what their ids did, and links of user ids. */
  people(): AsyncIterable<readonly ScannedRow[]>;
  /** Id after id: all that is known of anonymous ids. */
  anonymous(): AsyncIterable<readonly ScannedRow[]>;
}

/** An event as a table of events has it; times are milliseconds since 1970. */
export interface LoggedRow {
  readonly messageId: string;
  readonly type: string;
  readonly event: string | null;
  readonly userId: string | null;
  readonly anonymousId: string | null;
  readonly previousId: string | null;
  readonly timestamp: number;
  readonly receivedAt: number;
  readonly properties: unknown;
  readonly traits: unknown;
  readonly context: unknown;
}

/**
 * How far a table of events was read. Numbers are given before a transaction ends, so that those missing below the last one
 * may still come: each since when, in milliseconds since 1970.
 */
export interface TablePlace {
  readonly last: number;
  /** When that was, in milliseconds since 1970: events that came later may have been received a little before. */
  readonly at: number;
  readonly missing: readonly (readonly [number: number, since: number])[];
}

/** The log of a store that processes share: a table, in partitions by the day of receipt. */
export interface TableLog {
  readonly kind: 'table';
  /** No event was received before this day, counted from 1970. */
  firstDay(): Promise<number>;
  /** Makes partitions for this day and the next ones. @param now - milliseconds since 1970 */
  prepare(now: number): Promise<void>;
  /** Drops what was received before this day (YYYY-MM-DD). */
  dropBefore(day: string): Promise<void>;
  /**
   * Deletes the events of users, and of the ids that are theirs. Only those of `sources`, or of any when null, and only
   * what was received by `until`, in milliseconds since 1970, if that is given.
   */
  forget(users: readonly string[], sources: readonly string[] | null, until?: number): Promise<void>;
  /** Ids of users in the log, each once. */
  userIds(): Promise<readonly string[]>;
  /** The id of the restoring that made this database of a copy; null if none did. */
  restored(): Promise<string | null>;
  summary(): Promise<TableSummary>;
  /** On disk, and how many days have a partition; counts nothing. */
  size(): Promise<{ readonly bytes: number; readonly partitions: number }>;
  /** Reads the log as it is at one moment. `onPlace` hears how far that is, before anything is read. */
  scan(
    wanted: Wanted,
    now: number,
    signal: AbortSignal,
    onPlace: (place: TablePlace) => Promise<void>,
    read: (scan: LogScan) => Promise<void>,
  ): Promise<void>;
  /** Events that were written since, in no order, some thousand at a time, and how far that is. */
  since(place: TablePlace, now: number): Promise<{ readonly events: readonly LoggedRow[]; readonly place: TablePlace }>;
}

/** Size and span of the log. */
interface TableSummary {
  readonly events: number;
  readonly bytes: number;
  /** First and last day of receipt, YYYY-MM-DD; null when it is empty. */
  readonly from: string | null;
  readonly to: string | null;
}

export type EventLog = FileLog | TableLog;
