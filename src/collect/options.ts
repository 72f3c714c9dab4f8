import type { Source } from '../destination.ts';
import type { Clock } from '../kernel/clock.ts';
import type { Message, TimeField } from '../message.ts';
import type { OnDiscard } from './discarded.ts';
import type { CollectLimits } from './limits.ts';

export interface CollectOptions {
  /** Returns the same list as long as nothing changed. */
  readonly sources: () => readonly Source[];
  /** Resolves once the messages are durable. */
  readonly accept: (source: string, messages: readonly Message[]) => Promise<unknown>;
  readonly clock: Pick<Clock, 'now' | 'uuid' | 'monotonic'>;
  readonly limits?: Partial<CollectLimits>;
  /** Called with each rejected message, and each refused request that its client won't send again. */
  readonly onDiscard?: OnDiscard;
  readonly onUnreadable?: (source: string, field: TimeField) => void;
}
