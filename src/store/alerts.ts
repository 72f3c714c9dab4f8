import type { Concern } from '../concern.ts';
import type { Fence } from './fleet.ts';

/** An announcement of an alert, alone or with others of its kind. */
interface Announced {
  readonly id: string;
  /** Time of the decision to announce, in store time. */
  readonly at: number;
  /** True once it is accepted for delivery. */
  readonly sent: boolean;
}

/** A concern that people are alerted to. Times are store time. */
export interface Alert {
  readonly id: string;
  /** The cause; at most one alert per kind and subject is not closed. */
  readonly about: Concern;
  readonly firstAt: number;
  /** Time at which the concern had lasted long enough; null before. */
  readonly openedAt: number | null;
  /** End of the concern; null while it lasts. */
  readonly goneAt: number | null;
  readonly closedAt: number | null;
  /** Times the alert reopened soon after it was closed. */
  readonly flaps: number;
  readonly opening: Announced | null;
  readonly closing: Announced | null;
  /** Closed, with nothing left to announce. */
  readonly isOver: boolean;
}

export interface AlertFilter {
  readonly isOpen?: boolean;
  /** Only alerts before this place: see `AlertPage`. */
  readonly before?: number;
  readonly limit: number;
}

/** Opened alerts, newest first. */
export interface AlertPage {
  readonly alerts: readonly Alert[];
  /** Pass as `before` for the next page; null after the last. */
  readonly next: number | null;
}

export interface AlertRecords {
  /** Alerts that are not over, or were closed since then. */
  currentAlerts(closedSince: number): Promise<readonly Alert[]>;
  /** Saves new or changed alerts and removes those of `gone` (ids). Throws `fence_lost`. */
  saveAlerts(alerts: readonly Alert[], gone: readonly string[], fence: Fence): Promise<void>;
  alerts(filter: AlertFilter): Promise<AlertPage>;
  pruneAlerts(before: number, limit: number): Promise<number>;
}
