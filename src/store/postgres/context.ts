import type { DeliveryIds } from '../delivery-ids.ts';
import type { Database } from './database.ts';

/** What the verbs share: the database, and what is known of this store. */
export interface Context {
  readonly db: Database;
  readonly url: string;
  readonly ids: DeliveryIds;
  readonly suppressionKey: string;
  readonly maxQueued: number;
  /** This process's parts of the counters: accepts and settlements never wait for each other's. */
  readonly parts: { readonly accept: number; readonly settle: number };
}

export function idName({ ids }: Pick<Context, 'ids'>, id: number): string {
  return ids.name(id);
}

export function idNumber({ ids }: Pick<Context, 'ids'>, name: string): number {
  return ids.number(name);
}
