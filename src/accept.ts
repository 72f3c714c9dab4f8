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
  /** Writes them into the event log, too. */
  readonly logged?: boolean;
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
  // No function that waits holds the messages: while they are on their way to disk, their store alone decides what stays.
  return (source, messages, options = {}) => {
    const { to, lane = 'live' } = options;
    const routed = to === undefined ? createRouter(source, destinations()) : () => to;
    const reached = new Set<string>();
    const accepted = messages.map((message): NewMessage => {
      const names = routed(message);
      for (const name of names) reached.add(name);
      return newMessage(source, message, names, lane);
    });
    const request = { messages: accepted, step: options.step ?? null, logged: options.logged ?? false };
    return store.accept(request).then((result) => {
      onWork(reached);
      return result;
    });
  };
}

function newMessage(source: string, message: Message, destinations: readonly string[], lane: Lane): NewMessage {
  const { messageId, type, userId, body, conflict = null } = message;
  return { source, messageId, type, userId, body, destinations, lane, conflict };
}
