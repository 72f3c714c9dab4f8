import type { Database } from './database.ts';

/** What the verbs share: the database, and what is known of this store. */
export interface Context {
  readonly db: Database;
  readonly url: string;
  /** The store's own id, the first half of every delivery's. */
  readonly store: string;
  readonly suppressionKey: string;
  readonly maxQueued: number;
  /** This process's parts of the counters: accepts and settlements never wait for each other's. */
  readonly parts: { readonly accept: number; readonly settle: number };
}

/** Ids that stay unique when a database is made anew: receivers may remember those of the old one. */
export function idName({ store }: Pick<Context, 'store'>, id: number): string {
  return `${store}-${id.toString(36)}`;
}

/** -1, which no row has, for an id of another store. */
export function idNumber({ store }: Pick<Context, 'store'>, name: string): number {
  const digits = name.slice(store.length + 1);
  return name.startsWith(`${store}-`) && /^[0-9a-z]{1,11}$/.test(digits) ? Number.parseInt(digits, 36) : -1;
}
