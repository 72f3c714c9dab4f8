import type { CounterChanges } from '../changes.ts';
import type { Session } from '../records/session.ts';
import type { Sql } from '../sql.ts';

/** A destination or run in the queue's tables: its name, or the number that stands for it. */
export type Name = string | number;

/**
 * Where letters re-enter their line: as if new, ordered by time of acceptance, or in front of everything held since.
 */
export type EntryPlace = 'new' | 'as accepted' | 'in front';

export interface QueueSession extends Session {
  /** Columns that set a delivery's place in its line, and their values for a letter `l`. */
  readonly entryColumns: Sql;
  entry(entry: EntryPlace): Sql;
  readonly lane: Sql;
  /** Skips rows locked by others, after `FOR UPDATE`. */
  readonly skipLocked: Sql;
  /** Query for ids of ready deliveries, all or tried ones, and locks them. */
  ready(destination: string, of: 'all' | 'tried', limit: number, condition?: Sql): Sql;
  /** Queries for untried deliveries that have waited since before a time; each takes a limit. */
  waiting(destination: string, before: number, condition: Sql): readonly ((limit: number) => Sql)[];
  /** New delivery ids, never reused. */
  newIds(count: number): Promise<number[]>;
  /** Removes changes of these keys that are not in flight: newer ones replace them. */
  takeBack(destination: Name, conflicts: readonly string[], changes: CounterChanges<Name>): Promise<void>;
  /** Writes the transaction's counter changes, at its end. */
  write(changes: CounterChanges<Name>): Promise<void>;
  /** Notes that the deleted rows must leave no trace in the database's own files. */
  leaveNoTrace(): void;
  transaction<T>(work: (session: QueueSession) => Promise<T>): Promise<T>;
}
