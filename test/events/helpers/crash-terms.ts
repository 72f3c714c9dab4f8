import type { EventLogConfig } from '../../../src/config/config.ts';
import type { Failpoint } from '../../../src/kernel/failpoint.ts';

/** Work on the log: in files on SQLite, in a table on Postgres. */
export const STEPS = ['seal', 'merge', 'drop', 'tidy', 'erase', 'prepare'] as const;
export type Step = (typeof STEPS)[number];

/** The place of the log's files. */
export type LogPlace = Pick<EventLogConfig, 'path' | 'bucket'>;

/** The orders that a life of the process gets. */
export interface Orders {
  readonly place: LogPlace;
  readonly url: string;
  readonly life: number;
  /** When it begins, by its clock. */
  readonly now: number;
  /** Events received before this day are dropped. */
  readonly horizon: string;
  /** The work to do, and where in it the process ends; with null for the step it does one thing after another. */
  readonly step: Step | null;
  readonly crash: { readonly failpoint: Failpoint; readonly passes: number } | null;
  readonly seed: number;
  /** Messages that were sent without an answer: a client sends them again. */
  readonly unsure: readonly string[];
  /** Users of a deletion that was begun and is not over. */
  readonly erasing: string | null;
}

/** Its report, and when by its clock. */
export type Said = { readonly now: number } & News;
export type News =
  | { readonly sending: readonly string[] }
  | { readonly acknowledged: readonly string[] }
  | { readonly dropping: string }
  | { readonly erasing: string }
  | { readonly erased: string };

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;
export const START = Date.parse('2026-03-01T00:00:00.000Z');
export const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10);
