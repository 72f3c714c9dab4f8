/** What a life of the process is told, and what it says. */
export interface Orders {
  readonly folder: string;
  readonly life: number;
  readonly steps: number;
  readonly failpoint: string | null;
  readonly passes: number;
  /** A deletion that was begun and is not over. */
  readonly erasing: string | null;
}

export type Said =
  | { readonly acknowledged: readonly string[]; readonly day: string }
  | { readonly erasing: string }
  | { readonly erased: string };

export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;
export const KEEP = 30 * DAY;
export const START = Date.parse('2026-03-01T00:00:00.000Z');
