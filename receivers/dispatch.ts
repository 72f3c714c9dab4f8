import { after } from './after.ts';
import type { IdentifyBody } from './bodies.ts';
import type { Message, UnknownMessage } from './messages.ts';
import type { AudienceHandlers, Awaitable, Delivery, Handler, Handlers } from './options.ts';
import { handled, type Reply, stale, unhandled } from './reply.ts';
import type { ReceiverStore } from './store.ts';

export type Dispatch = (message: Message | UnknownMessage, known: boolean, delivery: Delivery) => Awaitable<Reply>;

interface Change {
  name: string;
  sequence: number | undefined;
  handler: Handler<IdentifyBody> | undefined;
}

/** The membership change that an identify call is, if it is one of an audience with handlers. */
function changeOf(message: Message, audiences: Map<string, AudienceHandlers>): Change | undefined {
  if (message.type !== 'identify' || message.userId === undefined) return undefined;
  const { computation_class, computation_id, computation_key, sequence } = message.context.personas ?? {};
  if (computation_class !== 'audience' || typeof computation_key !== 'string') return undefined;
  const handlers = audiences.get(computation_key);
  const member = message.traits[computation_key];
  if (handlers === undefined || typeof member !== 'boolean') return undefined;
  return {
    name: JSON.stringify([computation_id ?? computation_key, message.userId]),
    sequence: typeof sequence === 'number' ? sequence : undefined,
    handler: member ? handlers.entered : handlers.exited,
  };
}

/** Runs the tasks of one name one after the other. */
function createTurns(): (name: string, task: () => Promise<Reply>) => Promise<Reply> {
  const last = new Map<string, Promise<unknown>>();
  return (name, task) => {
    const before = last.get(name);
    const turn = before === undefined ? task() : before.then(task, task);
    last.set(name, turn);
    const forget = () => last.get(name) === turn && last.delete(name);
    turn.then(forget, forget);
    return turn;
  };
}

/** Makes the function that gives a message to the handlers that want it. */
export function createDispatch(on: Handlers, store: ReceiverStore): Dispatch {
  const audiences = new Map(Object.entries(on.audience ?? {}));
  const inTurn = createTurns();

  async function change(
    { name, sequence, handler }: Change,
    message: IdentifyBody,
    delivery: Delivery,
  ): Promise<Reply> {
    if (sequence !== undefined && !(await store.advance(name, sequence))) return stale;
    await handler?.(message, delivery);
    return handled;
  }

  function leave(message: Message | UnknownMessage, delivery: Delivery): Awaitable<Reply> {
    return after(on.unhandled?.(message, delivery), () => unhandled);
  }

  function specific(message: Message, delivery: Delivery): Awaitable<Reply> {
    const membership = changeOf(message, audiences);
    if (membership !== undefined) {
      // Without turns a slow "entered" could end after the "exited" that followed it.
      return inTurn(membership.name, () => change(membership, message as IdentifyBody, delivery));
    }
    const handler = on[message.type] as Handler<Message> | undefined;
    if (handler === undefined && on.any === undefined) return leave(message, delivery);
    return after(handler?.(message, delivery), () => handled);
  }

  return (message, known, delivery) => {
    if (!known) return leave(message, delivery);
    return after(on.any?.(message as Message, delivery), () => specific(message as Message, delivery));
  };
}
