import type { CounterChanges } from '../changes.ts';
import type { Session } from '../records/session.ts';
import type { Sql } from '../sql.ts';

/** A destination or a run as the queue's tables have it: its name, or the number that stands for it. */
export type Name = string | number;

/**
 * Where letters come back into their line: as if they were new, behind an earlier time of acceptance, or before all that was
 * held since.
 */
export type EntryPlace = 'new' | 'as accepted' | 'in front';

/** A session for verbs of the queue that are written once. */
export interface QueueSession extends Session {
  /** The columns of a delivery that say where it enters its line, and their values for a letter `l`. */
  readonly entryColumns: Sql;
  entry(entry: EntryPlace): Sql;
  /** The lane of a delivery. */
  readonly lane: Sql;
  /** Passes over rows that others have locked, after `FOR UPDATE`. */
  readonly skipLocked: Sql;
  /** Queries for ids of ready deliveries, all of them or those with a condition; they are locked. */
  ready(destination: string, of: 'all' | 'tried', limit: number, condition?: Sql): Sql;
  /** The same of those that were never tried and wait since before a time, by how many at most. */
  waiting(destination: string, before: number): readonly ((limit: number) => Sql)[];
  /** Ids for deliveries that never come again. */
  newIds(count: number): Promise<number[]>;
  /** Takes back changes of these keys that are not in flight: newer ones take their place. */
  takeBack(destination: Name, conflicts: readonly string[], changes: CounterChanges<Name>): Promise<void>;
  /** Writes what the transaction changed in counters, at its end. */
  write(changes: CounterChanges<Name>): Promise<void>;
  /** Says that something was deleted which must leave no trace in the database's own files. */
  leaveNoTrace(): void;
  /** As `Session.transaction`. */
  transaction<T>(work: (session: QueueSession) => Promise<T>): Promise<T>;
}
