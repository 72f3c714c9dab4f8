import ms from 'ms';
import type { LoggedRow } from '../../../src/store/event-log.ts';

/** The time that `$now` stands for in most tests. */
export const NOW = Date.parse('2026-03-01T12:00:00.000Z');

/** An event as the log has it. */
export interface LoggedEvent extends LoggedRow {
  readonly type: 'identify' | 'track' | 'page' | 'screen' | 'group' | 'alias';
  readonly properties: Json | null;
  readonly traits: Json | null;
  readonly context: Json | null;
}

export type Json = { readonly [key: string]: unknown };

/** A user id, or `anonymous:` and an anonymous id, or both with a space between them. */
type Who = string;

/** How long before NOW, such as `3d`, or a time. */
type When = string;

let made = 0;

type Rest = Partial<LoggedEvent> & { readonly received?: When };

function event(who: Who, when: When, { received, ...rest }: Rest): LoggedEvent {
  made += 1;
  const ids = who.split(' ');
  const receivedAt = received === undefined ? Math.max(at(when), NOW - ms('1y')) : at(received);
  return {
    messageId: `m${String(made).padStart(6, '0')}`,
    type: 'track',
    event: null,
    userId: ids.find((id) => !id.startsWith('anonymous:')) ?? null,
    anonymousId: ids.find((id) => id.startsWith('anonymous:'))?.slice('anonymous:'.length) ?? null,
    previousId: null,
    timestamp: Math.min(at(when), receivedAt),
    receivedAt,
    properties: null,
    traits: null,
    context: {},
    ...rest,
  };
}

export function at(when: When): number {
  const ago = /^[\d.]+ ?[a-z]+$/.test(when) ? ms(when as ms.StringValue) : null;
  return ago === null ? Date.parse(when) : NOW - ago;
}

export function track(who: Who, name: string, when: When, properties: Json = {}, rest: Rest = {}): LoggedEvent {
  return event(who, when, { type: 'track', event: name, properties, ...rest });
}

export function order(who: Who, when: When, properties: Json = {}, rest: Rest = {}): LoggedEvent {
  return track(who, 'Order Completed', when, properties, rest);
}

export function identify(who: Who, when: When, traits: Json = {}, rest: Rest = {}): LoggedEvent {
  return event(who, when, { type: 'identify', traits, ...rest });
}

export function alias(previousId: string, userId: string, when: When, rest: Rest = {}): LoggedEvent {
  return event(userId, when, { type: 'alias', previousId, ...rest });
}

export function page(who: Who, when: When, properties: Json = {}): LoggedEvent {
  return event(who, when, { type: 'page', properties });
}
