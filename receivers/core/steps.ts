import { type IdentifyBody, kinds } from '../bodies.ts';
import type { AudienceHandlers, Handler, Handlers, Log, TraitHandlers } from '../options.ts';
import { type ComputedCalls, computedOf, type Message, type UnknownMessage } from '../parse/messages.ts';
import { after } from './after.ts';
import * as reply from './reply.ts';

/** The call that handles a message, and the answer after it. */
export interface HandlerStep {
  readonly call: Handler<never>;
  readonly answer: reply.Reply;
}

/** Finds the step of a message; `known` is true if its kind is one of the seven. */
export type StepOf = (message: Message | UnknownMessage, known: boolean, log: Log) => HandlerStep;

interface AudienceSteps {
  readonly entered: HandlerStep;
  readonly exited: HandlerStep;
}

interface TraitSteps {
  readonly changed: HandlerStep;
  readonly gone: HandlerStep;
}

/** The most keys without a handler that are logged. */
const MISSED_LIMIT = 100;

/** Handles changes for which an audience has no handler. */
const nothing = () => {};

/** Prepares a step for each handler, so that nothing is built per message. */
export function createSteps(on: Handlers): StepOf {
  const first: Handler<never> | undefined = on.any && ((message, request) => on.any?.(message, request));

  const handling = (handler: Handler<never>): HandlerStep => ({
    call: first ? (message, request) => after(first(message, request), () => handler(message, request)) : handler,
    answer: reply.handled,
  });
  const left: HandlerStep = { call: (message, request) => on.unhandled?.(message, request), answer: reply.unhandled };
  const unnamed: HandlerStep = first ? { call: first, answer: reply.handled } : left;

  const audienceSteps = ({ entered = nothing, exited = nothing }: AudienceHandlers): AudienceSteps => ({
    entered: handling(entered),
    exited: handling(exited),
  });
  const traitSteps = ({ changed = nothing, gone = nothing }: TraitHandlers): TraitSteps => ({
    changed: handling(changed),
    gone: handling(gone),
  });

  // Keys are foreign text, so they are not looked up in an object.
  const audiences = mapped(on.audience, audienceSteps);
  const traits = mapped(on.trait, traitSteps);
  const ofKind = new Map<string, HandlerStep>();
  for (const kind of kinds) {
    const handler = on[kind];
    ofKind.set(kind, handler === undefined ? unnamed : handling(handler));
  }

  /** The step of this audience or trait, or of all (`*`); undefined if `identify` handles it. */
  function computedStep({ kind, key }: ComputedCalls, { traits: values }: IdentifyBody): HandlerStep | undefined {
    if (kind === 'audience') {
      const steps = audiences.get(key) ?? audiences.get('*');
      const member = Object.hasOwn(values, key) ? values[key] : undefined;
      if (steps === undefined || typeof member !== 'boolean') return undefined;
      return member ? steps.entered : steps.exited;
    }
    const steps = traits.get(key) ?? traits.get('*');
    if (steps === undefined) return undefined;
    const isGone = Object.values(values).every((value) => value === null);
    return isGone ? steps.gone : steps.changed;
  }

  const missed = new Set<string>();

  /** Logs a change that no handler takes although handlers name other keys: one may be misspelt, or renamed at the sender. */
  function noteMissed({ kind, key }: ComputedCalls, log: Log): void {
    const named = kind === 'audience' ? audiences : traits;
    const name = `${kind} ${key}`;
    if (named.size === 0 || missed.has(name) || missed.size >= MISSED_LIMIT) return;
    missed.add(name);
    log.warn({ [kind]: key, handled: [...named.keys()] }, `webhook unhandled: on.${kind} does not name this key`);
  }

  return (message, known, log) => {
    if (!known) return left;
    const computed = message.type === 'identify' ? computedOf(message) : undefined;
    const special = computed && computedStep(computed, message as IdentifyBody);
    if (special !== undefined) return special;
    const step = ofKind.get(message.type) as HandlerStep;
    if (computed !== undefined && step === left && on.unhandled === undefined) noteMissed(computed, log);
    return step;
  };
}

function mapped<H, S>(handlers: Readonly<Record<string, H | undefined>> | undefined, steps: (each: H) => S) {
  const named = Object.entries(handlers ?? {}).filter((entry): entry is [string, H] => entry[1] !== undefined);
  return new Map(named.map(([key, each]) => [key, steps(each)]));
}
