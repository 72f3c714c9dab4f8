import assert from 'node:assert/strict';
import { createSteps } from '../../receivers/core/steps.ts';
import type { ReceivedRequest } from '../../receivers/options.ts';
import { parseMessage } from '../../receivers/parse/parse.ts';
import type { MembershipForm } from '../../src/destination.ts';
import type { ChangeCause, ChangeReason } from '../../src/membership-change.ts';

interface Personas {
  readonly computation_class: 'audience' | 'trait';
  readonly computation_key: string;
  readonly reason: ChangeReason;
  readonly changedAt: string;
  readonly cause?: ChangeCause;
}

/** A change as a receiver gets it. */
export interface Told extends Omit<Personas, 'computation_class' | 'computation_key'> {
  readonly key: string;
  readonly userId: string;
  readonly present: boolean;
}

/** Names in the properties of an event that are no values. */
const NAMES = /^(audience|trait)_(key|name)$/;
/** Reasons that `only: 'changes'` lets through, by direction. */
const HAPPENED = {
  true: ['entered', 'changed'],
  false: ['entered', 'exited', 'changed', 'definition', 'first_sync', 'returning', 'withdrawn', 'retired'],
};
const LOG = { info() {}, warn() {}, error() {} };

export function toldIn(body: string): Told & { readonly type: MembershipForm; readonly values: [string, unknown][] } {
  const { type, userId, traits, properties, context } = JSON.parse(body) as {
    readonly type: MembershipForm;
    readonly userId: string;
    readonly traits?: object;
    readonly properties?: object;
    readonly context: { readonly personas: Personas };
  };
  const { computation_class: kind, computation_key: key, ...personas } = context.personas;
  const values = Object.entries(traits ?? properties ?? {}).filter(([name]) => !NAMES.test(name));
  const present =
    kind === 'audience' ? Object.fromEntries(values)[key] === true : values.some(([, value]) => value !== null);
  return { type, values, key, userId, present, ...personas };
}

/** A receiving app, and the states that it derives from identify calls, from events, and in handlers of the kit. */
export class Receiver {
  /** `trait user` with its value, from whatever came last. */
  readonly held = new Map<string, unknown>();
  readonly byForm: Readonly<Record<MembershipForm, Map<string, unknown>>> = { identify: new Map(), track: new Map() };
  /** Calls of handlers with `only: 'changes'`, and of messages that were kept from them. */
  readonly calls = { ran: 0, keptAway: 0 };
  /** `key user` of members, by those handlers. */
  private readonly handled = new Map<string, boolean>();
  private ran: boolean | null = null;
  private readonly steps = createSteps(
    {
      audience: {
        '*': {
          entered: () => (this.ran = true),
          changed: () => (this.ran = true),
          exited: () => (this.ran = false),
          only: 'changes',
        },
      },
      trait: { '*': { changed: () => (this.ran = true), gone: () => (this.ran = false), only: 'changes' } },
    },
    false,
  );

  learn(body: string): Told {
    const { type, values, ...told } = toldIn(body);
    for (const state of [this.held, this.byForm[type]]) {
      // Columns with a false are the last known under this key: under another one there may be newer ones.
      for (const [name, value] of values)
        if (told.present || value === null || value === false) state.set(`${name} ${told.userId}`, value);
    }
    this.handle(body, told);
    return told;
  }

  private handle(body: string, { key, userId, present, reason }: Told): void {
    const parsed = parseMessage(Buffer.from(body));
    assert.ok(parsed.ok && parsed.known, body);
    this.ran = null;
    this.steps.stepOf(parsed.message, true, LOG).call(parsed.message as never, {} as ReceivedRequest);
    const isAsked = HAPPENED[`${present}`].includes(reason);
    assert.equal(this.ran, isAsked ? present : null, body);
    this.calls[isAsked ? 'ran' : 'keptAway'] += 1;
    const fact = `${key} ${userId}`;
    if (isAsked) this.handled.set(fact, present);
    // A rename is no change of the membership: the other key is not handled either.
    else if (reason === 'renamed') this.handled.delete(fact);
    else assert.ok(present || !this.handled.get(fact), `a handler missed an end: ${body}`);
  }

  forget(userId: string): void {
    for (const state of [this.held, this.handled, ...Object.values(this.byForm)]) {
      for (const fact of state.keys()) if (fact.slice(fact.indexOf(' ') + 1) === userId) state.delete(fact);
    }
  }
}
