import type { Destination } from './destination.ts';
import type { Message } from './message.ts';
import { createRouters } from './route/route.ts';
import type { AcceptResult, Claim, Lane, LiveCommit, NewMessage, PlanStep, Queue, Take } from './store/port.ts';

export interface AcceptOptions {
  /** `live` unless the messages are a backfill or deletion notices. */
  readonly lane?: Lane;
  /** These destinations and no others, whatever they are connected to and want: notices of deletions, and what syncs send. */
  readonly to?: readonly string[];
  /** As `to`, where it is not the same for all. */
  readonly toEach?: (message: Message) => readonly string[];
  /** Moves a run's cursor in the same transaction, if its fence still holds. */
  readonly step?: PlanStep;
  /** A step of the live computation, in the same transaction. */
  readonly live?: LiveCommit;
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

/** The part of this process that delivers messages as they are accepted. */
interface Deliverer {
  /** Offers to take deliveries as they are accepted, up to these numbers by destination; null if it takes none. */
  reserve(counts: ReadonlyMap<string, number>): Take | null;
  /** Called once they are on disk, with what was claimed for it; with null if they are not. */
  accepted(counts: ReadonlyMap<string, number>, take: Take | null, claims: readonly Claim[] | null): void;
}

/** @param onAccepted - called with each batch on disk, and the numbers of its deliveries by destination, repeated ones too */
export function createAccept(
  store: Pick<Queue, 'accept'>,
  destinations: () => readonly Destination[],
  deliverer?: Deliverer,
  onAccepted: (source: string, result: AcceptResult, counts: ReadonlyMap<string, number>) => void = () => {},
): Accept {
  const routerOf = createRouters(destinations);
  // No function that waits holds the messages: while they are on their way to disk, their store alone decides what stays.
  return (source, messages, options = {}) => {
    const { to, toEach, lane = 'live' } = options;
    const routed = toEach ?? (to === undefined ? routerOf(source) : () => to);
    const counts = new Map<string, number>();
    const accepted = messages.map((message): NewMessage => {
      const names = routed(message);
      for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
      return newMessage(source, message, names, lane);
    });
    const { step = null, live = null, logged = false } = options;
    const request = { messages: accepted, step, live, logged };
    const written = (result: AcceptResult) => {
      onAccepted(source, result, counts);
      return result;
    };
    if (!deliverer) return store.accept(request).then(written);
    const take = deliverer.reserve(counts);
    return store.accept({ ...request, take }).then(
      ({ claims = [], ...result }) => {
        deliverer.accepted(counts, take, claims);
        return written(result);
      },
      (error) => {
        deliverer.accepted(counts, take, null);
        throw error;
      },
    );
  };
}

function newMessage(source: string, message: Message, destinations: readonly string[], lane: Lane): NewMessage {
  const { messageId, type, userId, body, conflict = null } = message;
  return { source, messageId, type, userId, body, destinations, lane, conflict };
}
