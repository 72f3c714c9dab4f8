import type { DeliveryIds } from '../delivery-ids.ts';
import type { Database } from './database.ts';
import type { CounterParts } from './parts.ts';

export interface StoreContext {
  readonly db: Database;
  readonly url: string;
  readonly ids: DeliveryIds;
  readonly suppressionKey: string;
  readonly maxQueued: number;
  readonly parts: CounterParts;
}
