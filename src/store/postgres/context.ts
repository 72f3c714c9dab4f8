import type { DeliveryIds } from '../delivery-ids.ts';
import type { Database } from './database.ts';
import type { Parts } from './parts.ts';

/** What the verbs share: the database, and what is known of this store. */
export interface Context {
  readonly db: Database;
  readonly url: string;
  readonly ids: DeliveryIds;
  readonly suppressionKey: string;
  readonly maxQueued: number;
  readonly parts: Parts;
}
