import type { Destination } from './destination.ts';
import type { Message } from './message.ts';
import { createRouters } from './route/route.ts';
import type { AcceptResult, Claim, Lane, LiveCommit, NewMessage, PlanStep, Queue, Take } from './store/port.ts';

export interface AcceptOptions {
  /** `live` unless the messages are a backfill or deletion notices. */
  readonly lane?: Lane;
  /** Sends to exactly these destinations, whatever they are connected to and want: for deletion notices and syncs. */
  readonly to?: readonly string[];
  readonly toEach?: (message: Message) => readonly string[];
  /** Moves a run's cursor in the same transaction, if its fence still holds. */
  readonly step?: PlanStep;
  /** Commits a step of the live computation in the same transaction. */
  readonly live?: LiveCommit;
  readonly logged?: boolean;
}

/**
 * The only way in: collection, deletion requests and the sync all call it. Resolves once all messages are on disk. If
 * it throws, none are.
 *
 * @throws RollcallError `store_full`, `store_busy`, `store_failed`, `fence_lost`
 */
export type Accept = (source: string, messages: readonly Message[], options?: AcceptOptions) => Promise<AcceptResult>;

interface Deliverer {
  /** Offers to claim deliveries as they are accepted, up to these counts by destination; null to claim none. */
  reserve(counts: ReadonlyMap<string, number>): Take | null;
  /** Called with the claims once the deliveries are on disk; with null if they could not be written. */
  accepted(counts: ReadonlyMap<string, number>, take: Take | null, claims: readonly Claim[] | null): void;
}

/** @param onAccepted - called for each batch on disk, with counts of its deliveries by destination, repeated ones included */
export function createAccept(
  store: Pick<Queue, 'accept'>,
  destinations: () => readonly Destination[],
  deliverer?: Deliverer,
  onAccepted: (source: string, result: AcceptResult, counts: ReadonlyMap<string, number>) => void = () => {},
): Accept {
  const routerOf = createRouters(destinations);
  // No waiting function holds the messages: while they are being written, the store alone decides what stays in memory.
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
  const { messageId, type, userId, body, conflict = null, replaces } = message;
  const accepted = { source, messageId, type, userId, body, destinations, lane, conflict };
  return replaces === undefined ? accepted : { ...accepted, replaces };
}
