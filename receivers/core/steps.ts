import { type IdentifyBody, kinds, type TrackBody } from '../bodies.ts';
import type { AudienceHandlers, Handler, Handlers, Log, TraitHandlers } from '../options.ts';
import {
  type ComputedBody,
  type ComputedCalls,
  changeIn,
  computedOf,
  type Message,
  type Parsed,
  traitsIn,
  type UnknownMessage,
} from '../parse/messages.ts';
import { type Change, changeOf } from '../store.ts';
import { after } from './after.ts';
import * as reply from './reply.ts';

/** The call that handles a message, and the answer after it. */
export interface HandlerStep {
  readonly call: Handler<never>;
  readonly answer: reply.Reply;
}

export interface Steps {
  /** Finds the step of a message; `known` is true if its kind is one of the seven. */
  stepOf(message: Message | UnknownMessage, known: boolean, log: Log): HandlerStep;
  /** The change that a call contains, in the scope of a receiver and a sender. */
  changeOf(parsed: Parsed, scope: string): Change | undefined;
}

/** The effect of a change: a user enters or has a first value, has another value or column, or leaves. */
type Move = 'entered' | 'changed' | 'exited';

interface ComputedSteps extends Readonly<Record<Move, HandlerStep>> {
  readonly only: AudienceHandlers['only'];
}

/** Reasons of which `only: 'changes'` keeps `false` and `null` away. */
const REPEATED: readonly unknown[] = ['resync', 'backfill', 'renamed'];

function isWanted(only: ComputedSteps['only'], move: Move, reason: unknown): boolean {
  if (only !== 'changes') return only === undefined || only.some((each) => each === reason);
  if (move === 'exited') return !REPEATED.includes(reason);
  return reason === 'changed' || reason === 'entered';
}

/** The most keys without a handler that are logged. */
const MISSED_LIMIT = 100;

/** Handles changes for which an audience has no handler. */
const nothing = () => {};

/** The step of a test with a real user. */
export const untried: HandlerStep = { call: nothing, answer: reply.unhandled };

const isTest = (message: Message | UnknownMessage): boolean =>
  'context' in message && (message.context as { readonly test?: unknown } | null | undefined)?.test === true;

/** Prepares a step for each handler, so that nothing is built per message. */
export function createSteps(on: Handlers, takesTests: boolean): Steps {
  const first: Handler<never> | undefined = on.any && ((message, request) => on.any?.(message, request));

  const handling = (handler: Handler<never>): HandlerStep => ({
    call: first ? (message, request) => after(first(message, request), () => handler(message, request)) : handler,
    answer: reply.handled,
  });
  const left: HandlerStep = { call: (message, request) => on.unhandled?.(message, request), answer: reply.unhandled };
  const unnamed: HandlerStep = first ? { call: first, answer: reply.handled } : left;

  const changing = (handler: Handler<ComputedBody>): HandlerStep =>
    handling((message: IdentifyBody | TrackBody, request) =>
      handler(changeIn(message, computedOf(message) as ComputedCalls), request),
    );
  const keptAway = { ...changing((message, request) => on.keptAway?.(message, request)), answer: reply.keptAway };
  /** The steps of an audience, or of a trait, whose first value is a change too. */
  const computedSteps = (
    { entered = nothing, changed = nothing, exited = nothing }: AudienceHandlers,
    only: ComputedSteps['only'],
  ): ComputedSteps => ({ entered: changing(entered), changed: changing(changed), exited: changing(exited), only });

  // Keys are foreign text, so they are not looked up in an object.
  const named = {
    audience: mapped(on.audience, (each: AudienceHandlers) => computedSteps(each, each.only)),
    trait: mapped(on.trait, ({ changed = nothing, gone = nothing, only }: TraitHandlers) =>
      computedSteps({ entered: changed, changed, exited: gone }, only),
    ),
  };
  const events = mapped(typeof on.track === 'object' ? on.track : undefined, handling);
  const ofKind = new Map<string, HandlerStep>();
  for (const kind of kinds) {
    const handler = on[kind];
    ofKind.set(kind, typeof handler === 'function' ? handling(handler) : unnamed);
  }

  /** The steps of this audience or trait, or of all (`*`); undefined if `identify` or `track` handles it. */
  const stepsFor = ({ kind, key }: ComputedCalls) => named[kind].get(key) ?? named[kind].get('*');

  function computedStep(computed: ComputedCalls, message: IdentifyBody | TrackBody): HandlerStep | undefined {
    const steps = stepsFor(computed);
    const move = steps && moveOf(computed, message);
    if (steps === undefined || move === undefined) return undefined;
    return isWanted(steps.only, move, message.context.personas?.reason) ? steps[move] : keptAway;
  }

  const eventStep = ({ event }: TrackBody) => events.get(event) ?? events.get('*');

  const missed = new Set<string>();

  /** Logs a change that no handler takes although handlers name other keys: one may be misspelt, or renamed at the sender. */
  function noteMissed({ kind, key }: ComputedCalls, log: Log): void {
    const name = `${kind} ${key}`;
    if (named[kind].size === 0 || missed.has(name) || missed.size >= MISSED_LIMIT) return;
    missed.add(name);
    log.warn({ [kind]: key, handled: [...named[kind].keys()] }, `webhook unhandled: on.${kind} does not name this key`);
  }

  return {
    stepOf(message, known, log) {
      if (!takesTests && isTest(message)) return untried;
      if (!known) return left;
      const computed = computedOf(message);
      const special = computed && computedStep(computed, message as IdentifyBody | TrackBody);
      if (special !== undefined) return special;
      const ofEvent = message.type === 'track' ? eventStep(message as TrackBody) : undefined;
      const step = ofEvent ?? (ofKind.get(message.type) as HandlerStep);
      if (computed !== undefined && step === left && on.unhandled === undefined) noteMissed(computed, log);
      return step;
    },
    changeOf(parsed, scope) {
      const computed = parsed.ok && parsed.known ? computedOf(parsed.message) : undefined;
      return computed && changeOf(computed, scope, stepsFor(computed) !== undefined);
    },
  };
}

/** Undefined for an audience's call that does not say if the user is a member. */
function moveOf({ kind, key }: ComputedCalls, message: IdentifyBody | TrackBody): Move | undefined {
  const traits = traitsIn(message, kind);
  if (kind === 'audience') {
    const value = Object.hasOwn(traits, key) ? traits[key] : undefined;
    if (typeof value !== 'boolean') return undefined;
    if (!value) return 'exited';
  } else if (Object.values(traits).every((value) => value === null)) return 'exited';
  const { reason, update } = message.context.personas ?? {};
  return reason === 'changed' || update === true ? 'changed' : 'entered';
}

function mapped<H, S>(handlers: Readonly<Record<string, H | undefined>> | undefined, steps: (each: H) => S) {
  const named = Object.entries(handlers ?? {}).filter((entry): entry is [string, H] => entry[1] !== undefined);
  return new Map(named.map(([key, each]) => [key, steps(each)]));
}
