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
import type { SendRecords } from './sends.ts';
import type { SpentPassRecords } from './spent-passes.ts';

export type * from './alerts.ts';
export type * from './audit.ts';
export type { DeletedIds, ErasedIds } from './deleted-ids.ts';
export * from './deletions.ts';
export * from './endpoints.ts';
export type * from './fleet.ts';
export * from './history.ts';
export type { LiveCommit } from './live.ts';
export * from './messages.ts';
export * from './queue.ts';
export * from './runs.ts';
export * from './sends.ts';
export { ALERT_SOURCE } from './states.ts';

/** Everything stored besides deliveries, one small record at a time. The code is in `records/`. */
export interface Records
  extends FleetRecords,
    RunRecords,
    SendRecords,
    DeletionRecords,
    EndpointRecords,
    MessageRecords,
    HistoryRecords,
    AuditRecords,
    AlertRecords,
    SpentPassRecords {}

/**
 * The clock of due times and of the four hours, in milliseconds. It runs evenly when a clock is set: on Postgres it is
 * the database's clock, on SQLite the wall clock plus an offset. Claims, verdicts and endpoint states use it; attempts,
 * dead letters and runs use the wall clock, as they are shown.
 */
export interface StoreTime {
  now(): number;
  /** The same moment on the wall clock, as it is set now. */
  toWall(time: number): number;
}

export interface StoreEvents {
  /** The store has failed for good: every call fails until a new process opens it. */
  onFatal(error: RollcallError): void;
  /** The data is damaged (`store_damaged`): the store accepts nothing new until it is repaired and reopened. */
  onDamaged(error: RollcallError): void;
}

/** For callers that notice failures when a call fails. */
export const NO_EVENTS: StoreEvents = { onFatal() {}, onDamaged() {} };

/**
 * Durable storage of the service. Every writing call resolves only once the change is on disk. Failures are
 * `RollcallError`s: `store_full`, `store_busy`, `store_failed`, `fence_lost`.
 */
export interface Store extends Queue, Records {
  /** An id that moves and backups keep. */
  readonly id: string;
  readonly time: StoreTime;
  /** The log of messages accepted as `logged`. */
  readonly events: EventLog;
  /** State of live audiences, for `jobs/live` only. */
  readonly live: LiveState;
  /** Limit of untried deliveries per destination; deletion notices do not count. */
  readonly maxQueued: number;

  /**
   * Removes traces of erased rows from the database's own files, as far as the database allows.
   *
   * @throws RollcallError `store_busy` while others prevent it
   */
  scrub(): Promise<void>;
  /** Resolves if the store answers and knows of no damage; throws otherwise. */
  ping(): Promise<void>;
  /** The database's version, and what keeps it from working; writes nothing. */
  examine(): Promise<readonly Remark[]>;
  /** Milliseconds that this machine's wall clock is ahead of the database's; null if the database has no clock. */
  clockAhead(): Promise<number | null>;
  /**
   * Checks the stored data for damage in the background; resolves to a description of it, null if sound. `thorough`
   * takes as long as it needs; otherwise a very large database is skipped.
   */
  check(thorough: boolean): Promise<string | null>;
  /** Finishes running work, then closes. */
  close(): Promise<void>;
}
