import type { Activity } from '../definition/definition.ts';
import type { MESSAGE_PARTS } from '../definition/places.ts';
import type { Message } from '../message.ts';
import type { ErasedIds, IdentityLinks } from './deleted-ids.ts';
import type { Fence } from './fleet.ts';

/** The lease to seal, merge and delete, across all processes. */
export const EVENT_LOG_LEASE = 'event-log';

/** One log file: events of one source received on one UTC day. */
export interface LogFile {
  /** Path within the log's folder. */
  readonly name: string;
  readonly source: string;
  /** YYYY-MM-DD. */
  readonly day: string;
  readonly events: number;
  readonly bytes: number;
}

/** Later than any day: stands for the first day of a log without events. */
export const NO_DAY = 100_000_000;

export interface LogState {
  /** Incremented whenever events move between tail and files. */
  readonly version: number;
  readonly files: readonly LogFile[];
  readonly tail: {
    readonly events: number;
    readonly bytes: number;
    /** Acceptance time of the oldest event, in store time; null if empty. */
    readonly since: number | null;
    /** Number of the last part; 0 if empty. */
    readonly last: number;
    /** Number of the last part ever written. */
    readonly newest: number;
  };
}

/** A part of the tail: events that were accepted together. */
export interface TailPart {
  readonly id: number;
  readonly source: string;
  /** Bodies, one per line. */
  readonly bodies: string;
}

/**
 * The log of a store on one machine. Its hot tail is a table; the rest are files that the store lists. Files are listed
 * and the tail is emptied of their events in one transaction, so a crash never loses or duplicates events.
 */
export interface FileLog {
  readonly kind: 'files';
  /** No event was received before this day, counted from 1970. */
  firstDay(): Promise<number>;
  state(): Promise<LogState>;
  /** Reads parts after `after` up to `upTo`, in order: some megabytes, and at least one part if there is any. */
  tail(after: number, upTo: number): Promise<readonly TailPart[]>;
  /**
   * Reads parts after `after`, in order, some megabytes, including parts that were sealed before the live computation
   * had read them. `lost` is the last part that can no longer be read this way.
   */
  unread(after: number): Promise<{ readonly parts: readonly TailPart[]; readonly lost: number }>;
  /** Erases ids from the parts that `unread` returns but `tail` does not. */
  forgetUnread(ids: ErasedIds, sources: readonly string[] | null): Promise<void>;
  /** True if the tail names any of these ids. */
  names(ids: ErasedIds): Promise<boolean>;
  /** Records which files are about to be written: if the process dies, they are leftovers. Throws `fence_lost`. */
  willWrite(fence: Fence, names: readonly string[]): Promise<void>;
  /** Replaces the tail's parts up to `upTo` with these files. Throws `fence_lost`. */
  seal(fence: Fence, upTo: number, files: readonly LogFile[]): Promise<void>;
  /** Replaces files with others; the old ones become leftovers. Throws `fence_lost`. */
  replace(fence: Fence, gone: readonly string[], files: readonly LogFile[]): Promise<void>;
  /** Files that are not part of the log, and when they became leftovers, in store time. */
  leftovers(): Promise<readonly { readonly name: string; readonly since: number }[]>;
  /** Forgets leftovers that have been removed from disk. */
  removed(names: readonly string[]): Promise<void>;
  /** Number of the last deletion carried out in the log, as passed to `deleted`. */
  deletions(): Promise<number>;
  deleted(last: number): Promise<void>;
}

export interface Wanted {
  /** Milliseconds for which events are kept. */
  readonly keep: number;
  readonly activities: readonly WantedActivity[];
  readonly traits: boolean;
  /** True if every active user matters, whatever they did. */
  readonly everybody: boolean;
}

export interface WantedActivity extends Pick<Activity, 'kind' | 'names'> {
  /** Older events do not count, in milliseconds since 1970; null if all do. */
  readonly since: number | null;
  readonly parts: ReadonlySet<(typeof MESSAGE_PARTS)[number]>;
  /** True if the order of events matters, down to their ids. */
  readonly ids: boolean;
}

/** One row of the log about an id. Parts and message ids that are not wanted are left out. */
export interface ScannedRow extends Omit<LoggedRow, 'userId' | 'anonymousId' | 'previousId'> {
  readonly isAnonymous: boolean;
  readonly id: string;
  /** The user that the id finally belongs to; null for an anonymous id without a user. */
  readonly person: string | null;
  /** The user that this row links the id to; null if the row is not a link. */
  readonly linked: string | null;
}

/** A snapshot of the log, grouped by person, with identities resolved. */
export interface LogScan {
  /** Time of the latest receipt, in milliseconds since 1970; 0 for an empty log. */
  readonly newest: number;
  /** Number of rows, of both kinds. */
  readonly rows: number;
  /** Everything known of each person's ids, and links of user ids, ordered by person and id. */
  people(): AsyncIterable<readonly ScannedRow[]>;
  /** Everything known of anonymous ids, ordered by id. */
  anonymous(): AsyncIterable<readonly ScannedRow[]>;
}

/** A row of an event table; times are milliseconds since 1970. */
export interface LoggedRow {
  readonly messageId: string;
  readonly type: string;
  /** Name of a track event, page or screen. */
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
 * How far an event table was read. Numbers are assigned before a transaction ends, so numbers missing below the last
 * one may still arrive: each is kept with the time since when it is missing, in milliseconds since 1970.
 */
export interface TablePlace {
  readonly last: number;
  /** Time of reading, in milliseconds since 1970: events that arrive later may have been received slightly before. */
  readonly at: number;
  readonly missing: readonly (readonly [number: number, since: number])[];
}

/** The log of a store shared by processes: a table partitioned by day of receipt. */
export interface TableLog {
  readonly kind: 'table';
  /** No event was received before this day, counted from 1970. */
  firstDay(): Promise<number>;
  /** Creates partitions for this day and the next ones. @param keep - milliseconds for which events are kept */
  prepare(now: number, keep: number): Promise<void>;
  /** Drops events received before this day (YYYY-MM-DD). */
  dropBefore(day: string): Promise<void>;
  /**
   * Deletes the events of these ids; others' events lose them. `sources` null means any source. `until` limits it to
   * events received by then, in milliseconds since 1970.
   */
  forget(ids: ErasedIds, sources: readonly string[] | null, until?: number): Promise<void>;
  readonly links: IdentityLinks;
  /** True if events of the last days name any of these ids. */
  names(ids: ErasedIds): Promise<boolean>;
  /** The ids in the log, each once. */
  ids(): Promise<ErasedIds>;
  /** Id of the restore that this database was made by; null if none. */
  restored(): Promise<string | null>;
  summary(): Promise<TableSummary>;
  /** The track events in the log, one row per property and type. */
  seen(): Promise<readonly SeenRow[]>;
  /** Size on disk and number of day partitions; counts no rows. */
  size(): Promise<{ readonly bytes: number; readonly partitions: number }>;
  /** Reads a snapshot of the log. `onPlace` gets its position before anything is read. */
  scan(
    wanted: Wanted,
    now: number,
    signal: AbortSignal,
    onPlace: (place: TablePlace) => Promise<void>,
    read: (scan: LogScan) => Promise<void>,
  ): Promise<void>;
  /** The days and sources that have events, after one day and up to another (YYYY-MM-DD). */
  groups(after: string, upTo: string): Promise<readonly (readonly [day: string, source: string])[]>;
  /** Reads the next rows of a source and day after a place, with their places. */
  rows(source: string, day: string, after: string, limit: number): Promise<readonly [string, ...SelectedRow][]>;
  /** Reads the next events of a selection after a place, at most `limit`. */
  select(selection: Selection, after: string | null, limit: number): Promise<readonly SelectedEvent[]>;
  /** Counts the events of a selection over all days, by their integrations. */
  count(selection: Omit<Selection, 'day' | 'source'>, sources: readonly string[]): Promise<readonly IntegrationCount[]>;
  /** Events written since a place, unordered, some thousands at a time, and the new place. */
  since(place: TablePlace, now: number): Promise<{ readonly events: readonly LoggedRow[]; readonly place: TablePlace }>;
}

/** Events of one source received on one UTC day. */
export interface Selection {
  /** YYYY-MM-DD. */
  readonly day: string;
  readonly source: string;
  readonly types: readonly string[];
  /** Names of track events; null for all. Other types pass. */
  readonly events: readonly string[] | null;
  /** Times of receipt in milliseconds since 1970; `until` itself is not included. */
  readonly since: number;
  readonly until: number;
}

export interface SelectedEvent {
  /** The place among the events of the day and source, which never changes. */
  readonly place: string;
  /** Make the message, which takes a while for thousands. */
  readonly message: () => Message;
}

type Text = string | null;

/** An event by the columns of the log's files; times are milliseconds since 1970 as text. */
export type SelectedRow = readonly [
  ...[messageId: string, type: string, event: Text, userId: Text, anonymousId: Text, previousId: Text, groupId: Text],
  ...[name: Text, timestamp: string, receivedAt: string, properties: Text, traits: Text, context: Text, rest: Text],
];

/** The integrations of events as JSON, null if they have none, and the number of such events. */
export type IntegrationCount = readonly [integrations: string | null, events: number];

interface TableSummary {
  readonly events: number;
  readonly bytes: number;
  /** First and last day of receipt, YYYY-MM-DD; null when it is empty. */
  readonly from: string | null;
  readonly to: string | null;
}

export type SeenType = 'string' | 'number' | 'boolean' | 'object' | 'array' | 'null';

/** A property of a track event as one type, and how often; an event without properties has one row with nulls. */
export type SeenRow = readonly [
  event: string,
  times: number,
  property: string | null,
  type: SeenType | null,
  timesProperty: number | null,
];

export type EventLog = FileLog | TableLog;
