import type { Failpoint } from '../../../src/kernel/failpoint.ts';

export interface Crash {
  readonly failpoint: Failpoint;
  readonly passes: number;
  /** Passes count from the start, while everybody is looked at, or once all is told as it is computed. */
  readonly from: 'start' | 'told';
}

/** The arguments that the parent gives a life on its command line. */
export interface Orders {
  readonly folder: string;
  readonly url: string;
  readonly life: number;
  /** Rises where what is kept has to be built anew. */
  readonly edition: number;
  /** How far its clock is ahead of the machine's, in milliseconds. */
  readonly ahead: number;
  readonly receiver: string;
  readonly crash: Crash | null;
}

/** A life's reports: where it listens, or how it compares at an instant. */
export type Said =
  | { readonly listening: string }
  /** All is told as it is computed; how often it came by its failpoint until then. */
  | { readonly told: number }
  | {
      /** By key, where live is not what the SQL says. */
      readonly differences: readonly string[];
      /** By key of what is live, the value of each member. */
      readonly members: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
    };

/** Their windows are of seconds, so that members leave by time alone while events come in. */
export const AUDIENCES = {
  once: { performed: 'Order' },
  recent: { performed: 'Order', within: '2 seconds' },
  twice: { performed: 'Order', atLeast: 2, within: '10 seconds' },
  silent: { not: { performed: 'Order', within: '4 seconds' } },
  pro: { trait: 'plan', is: 'pro' },
  mixed: { any: [{ all: [{ inAudience: 'twice' }, { inAudience: 'pro' }] }, { not: { inAudience: 'once' } }] },
} as const;
export const TRAITS = {
  // An event that counts twice shows for ever.
  orders: { count: 'Order' },
  spent: { sum: 'Order', of: 'properties.total', within: '90 seconds' },
  items: { uniqueList: 'Order', of: 'properties.item' },
} as const;
/** Each life has another definition of this one. */
export const EDITED = 'edited';
/** Each edition asks for something else of this one. */
export const REBUILT = 'rebuilt';
export const KEYS = [...Object.keys(AUDIENCES), EDITED, REBUILT, ...Object.keys(TRAITS)];
