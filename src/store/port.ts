import type { RollcallError } from '../kernel/errors.ts';
import type { Remark } from '../kernel/remark.ts';
import type { AlertRecords } from './alerts.ts';
import type { AuditRecords } from './audit.ts';
import type { DeletionRecords } from './deletions.ts';
import type { EndpointRecords } from './endpoints.ts';
import type { EventLog } from './event-log.ts';
import type { FleetRecords } from './fleet.ts';
import type { HistoryRecords } from './history.ts';
import type { LiveState } from './live.ts';
import type { MessageRecords } from './messages.ts';
import type { Queue } from './queue.ts';
import type { RunRecords } from './runs.ts';

export type * from './alerts.ts';
export type * from './audit.ts';
export * from './deletions.ts';
export * from './endpoints.ts';
export type * from './fleet.ts';
export * from './history.ts';
export type { LiveCommit } from './live.ts';
export * from './messages.ts';
export * from './queue.ts';
export * from './runs.ts';

/** What is kept besides deliveries, one small record at a time. `records/` has the code. */
export interface Records
  extends FleetRecords,
    RunRecords,
    DeletionRecords,
    EndpointRecords,
    MessageRecords,
    HistoryRecords,
    AuditRecords,
    AlertRecords {}

/**
 * The time of due times and of the four hours, in milliseconds. It runs on evenly when a clock is set: on Postgres it is the
 * database's clock, on SQLite the wall clock plus an offset. Claims, verdicts and states of endpoints are in it;
 * attempts, dead letters and runs are in the wall clock's, as they are shown.
 */
export interface StoreTime {
  now(): number;
  /** The same moment by the wall clock, as it is set now. */
  toWall(time: number): number;
}

/** Events that a store reports by itself. */
export interface StoreEvents {
  /** It has failed for good: every verb fails from now on, until a new process opens it. */
  onFatal(error: RollcallError): void;
  /** Its data is damaged (`store_damaged`): it takes nothing new until it is repaired and opened again. */
  onDamaged(error: RollcallError): void;
}

/** For callers that notice failures when a verb fails. */
export const NO_EVENTS: StoreEvents = { onFatal() {}, onDamaged() {} };

/**
 * Durable memory of the service. Every verb that writes resolves only once the change is on disk.
 * Failures are `RollcallError`s: `store_full`, `store_busy`, `store_failed`, `fence_lost`.
 */
export interface Store extends Queue, Records {
  readonly time: StoreTime;
  /** The log of messages that were accepted as `logged`. */
  readonly events: EventLog;
  /** What live audiences are computed from, for `jobs/live` alone. */
  readonly live: LiveState;
  /** Deliveries that wait for their first try, per destination at most; deletion notices are not counted. */
  readonly maxQueued: number;

  /**
   * Removes what erased rows left behind in the database's own files, as far as the database lets us.
   *
   * @throws RollcallError `store_busy` while others keep it from that
   */
  scrub(): Promise<void>;
  /** Resolves when the store answers, and is sound as far as it knows; throws otherwise. */
  ping(): Promise<void>;
  /** The database's version, and what keeps it from its work; writes nothing. */
  examine(): Promise<readonly Remark[]>;
  /** Milliseconds that this machine's wall clock is ahead of the database's; null where that has no clock of its own. */
  clockAhead(): Promise<number | null>;
  /**
   * Looks whether what is stored is damaged, in the background; resolves to what is wrong, null if nothing is. `thorough`
   * takes as long as it needs, while without it a database that is too large is passed over.
   */
  check(thorough: boolean): Promise<string | null>;
  /** Lets what was begun finish, then closes. */
  close(): Promise<void>;
}
