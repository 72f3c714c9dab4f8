import type { Destination } from './destination.ts';
import type { Message } from './message.ts';
import { createRouter } from './route/route.ts';
import type { AcceptResult, Lane, NewMessage, PlanStep, Store } from './store/port.ts';

export interface AcceptOptions {
  /** `live` unless the messages are a backfill or deletion notices. */
  readonly lane?: Lane;
  /** These destinations and no others, whatever they are connected to and want: notices of deletions, and what syncs send. */
  readonly to?: readonly string[];
  /** Moves a run's cursor in the same transaction, if its fence still holds. */
  readonly step?: PlanStep;
}

/**
 * The one way in: collection, deletion requests and the sync all call it. It resolves once the messages are on disk,
 * all of them or (when it throws) none.
 *
 * @throws RollcallError `store_full`, `store_busy`, `store_failed`, `fence_lost`
 */
export type Accept = (source: string, messages: readonly Message[], options?: AcceptOptions) => Promise<AcceptResult>;

/** Told the names of destinations that have new work. */
type WorkListener = (destinations: Iterable<string>) => void;

export function createAccept(
  store: Pick<Store, 'accept'>,
  destinations: () => readonly Destination[],
  onWork: WorkListener,
): Accept {
  return async (source, messages, options = {}) => {
    const lane = options.lane ?? 'live';
    const { to } = options;
    const routed = to === undefined ? createRouter(source, destinations()) : () => to;
    const accepted: NewMessage[] = messages.map((message) => ({
      source,
      messageId: message.messageId,
      type: message.type,
      userId: message.userId,
      body: message.body,
      destinations: routed(message),
      lane,
      conflict: message.conflict ?? null,
    }));
    const result = await store.accept({ messages: accepted, step: options.step ?? null });
    onWork(new Set(accepted.flatMap((message) => message.destinations)));
    return result;
  };
}
