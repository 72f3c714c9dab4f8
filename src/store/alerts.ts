import type { Concern } from '../concern.ts';
import type { Fence } from './fleet.ts';

/** An announcement that people got of an alert, alone or with others of its kind. */
interface Announced {
  readonly id: string;
  /** When it was decided on, in the store's time. */
  readonly at: number;
  /** Whether it is on its way: accepted for delivery. */
  readonly sent: boolean;
}

/** A concern that people hear of. Its times are the store's. */
export interface Alert {
  readonly id: string;
  /** Of the same kind and subject, at most one is not closed. */
  readonly about: Concern;
  readonly firstAt: number;
  /** When it had lasted long enough; null before. */
  readonly openedAt: number | null;
  /** Since when the concern is gone; null while it does. */
  readonly goneAt: number | null;
  readonly closedAt: number | null;
  /** How often it opened again soon after it was closed. */
  readonly flaps: number;
  readonly opening: Announced | null;
  readonly closing: Announced | null;
  /** Closed, with nothing left to say of it. */
  readonly isOver: boolean;
}

export interface AlertFilter {
  readonly isOpen?: boolean;
  /** Only those from before this place: see `AlertPage`. */
  readonly before?: number;
  readonly limit: number;
}

/** Alerts that people got, the newest first. */
export interface AlertPage {
  readonly alerts: readonly Alert[];
  /** The place that the next page begins before; null after the last. */
  readonly next: number | null;
}

/** Alerts, and their announcements to people. */
export interface AlertRecords {
  /** The alerts that are not over, and those closed since then. */
  currentAlerts(closedSince: number): Promise<readonly Alert[]>;
  /** Records alerts, new or changed, and forgets those of `gone` (ids). Throws `fence_lost`. */
  saveAlerts(alerts: readonly Alert[], gone: readonly string[], fence: Fence): Promise<void>;
  /** Those that were opened. */
  alerts(filter: AlertFilter): Promise<AlertPage>;
  /** Drops alerts that were over before `before`; at most `limit`. */
  pruneAlerts(before: number, limit: number): Promise<number>;
}
