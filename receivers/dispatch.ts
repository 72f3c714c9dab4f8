import { type Awaitable, after } from './after.ts';
import type { IdentifyBody } from './bodies.ts';
import type { Message, UnknownMessage } from './messages.ts';
import type { ComputedBody, Handler, Handlers, ReceivedRequest } from './options.ts';
import { type Computed, computedOf } from './order.ts';
import { handled, type Reply, unhandled } from './reply.ts';

export type Dispatch = (
  message: Message | UnknownMessage,
  known: boolean,
  request: ReceivedRequest,
) => Awaitable<Reply>;

type ComputedHandler = Handler<ComputedBody>;

/** Makes the function that gives a message to the handlers that want it. */
export function createDispatch(on: Handlers): Dispatch {
  // Keys come from outside: no look-up in an object.
  const audiences = new Map(Object.entries(on.audience ?? {}));
  const traits = new Map(Object.entries(on.trait ?? {}));

  /** The handler of this audience or trait, or of all (`*`); undefined where they are left to `identify`. */
  function computedHandler({ kind, key }: Computed, { traits: values }: IdentifyBody): ComputedHandler | undefined {
    if (kind === 'audience') {
      const handlers = audiences.get(key) ?? audiences.get('*');
      const member = Object.hasOwn(values, key) ? values[key] : undefined;
      if (handlers === undefined || typeof member !== 'boolean') return undefined;
      return (member ? handlers.entered : handlers.exited) ?? ignored;
    }
    const handlers = traits.get(key) ?? traits.get('*');
    if (handlers === undefined) return undefined;
    const isGone = Object.values(values).every((value) => value === null);
    return (isGone ? handlers.gone : handlers.changed) ?? ignored;
  }

  function leave(message: Message | UnknownMessage, request: ReceivedRequest): Awaitable<Reply> {
    return after(on.unhandled?.(message, request), () => unhandled);
  }

  function specific(message: Message, request: ReceivedRequest): Awaitable<Reply> {
    const computed = message.type === 'identify' ? computedOf(message) : undefined;
    const special = computed && computedHandler(computed, message as IdentifyBody);
    const handler = (special ?? on[message.type]) as Handler<Message> | undefined;
    if (handler === undefined && on.any === undefined) return leave(message, request);
    return after(handler?.(message, request), () => handled);
  }

  return (message, known, request) => {
    if (!known) return leave(message, request);
    return after(on.any?.(message as Message, request), () => specific(message as Message, request));
  };
}

/** For changes that an audience's handlers leave out. */
const ignored: ComputedHandler = () => {};
