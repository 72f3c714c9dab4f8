import type { LossFacts } from '../ledger.ts';
import type { Kind } from '../message.ts';

/** A message as it is sent. */
export interface Event {
  type: Kind;
  messageId?: string;
  [field: string]: unknown;
}

/** Why a message did not arrive. */
export class DeliveryError extends Error {
  /** Its loss, as `onLoss` gets it. */
  readonly loss: LossFacts;

  constructor(loss: LossFacts) {
    super(loss.message);
    this.name = 'DeliveryError';
    this.loss = loss;
  }
}

/** One message and its result, for callbacks, listeners and plugins. */
export class Context {
  #event: Event | string;
  #failure: { reason: unknown } | undefined;

  /** @internal */
  constructor(event: Event | string) {
    this.#event = event;
  }

  /** The message. What a plugin changes here is sent; after that it changes nothing. */
  get event(): Event {
    if (typeof this.#event === 'string') this.#event = JSON.parse(this.#event) as Event;
    return this.#event;
  }

  set event(event: Event) {
    this.#event = event;
  }

  /** The `messageId`. */
  get id(): string {
    return String(this.event.messageId);
  }

  /** Why it did not arrive; undefined if it did. */
  failedDelivery(): { reason: unknown } | undefined {
    return this.#failure;
  }

  setFailedDelivery(failure: { reason: unknown }): void {
    this.#failure = failure;
  }

  /** For a plugin of type `before`: stops the message. */
  cancel(reason: unknown = new Error('a plugin stopped the message')): never {
    throw reason;
  }

  /** Does nothing. Plugins of that library note here what they do. */
  log(_level: string, _message: string, _extras?: object): void {}

  /** Sets a value within the message, for instance `updateEvent('properties.plan', 'pro')`. */
  updateEvent(path: string, value: unknown): Event {
    const keys = path.split('.');
    const last = keys.pop() ?? '';
    if ([...keys, last].some((key) => key === '__proto__' || key === 'constructor' || key === 'prototype')) {
      return this.event;
    }
    let place: Record<string, unknown> = this.event;
    for (const key of keys) {
      const inner = place[key];
      if (typeof inner !== 'object' || inner === null) place[key] = {};
      place = place[key] as Record<string, unknown>;
    }
    place[last] = value;
    return this.event;
  }

  toJSON(): { id: string; event: Event } {
    return { id: this.id, event: this.event };
  }
}
