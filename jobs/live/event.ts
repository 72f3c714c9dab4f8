import type { PlaceFilter } from '../../src/definition/definition.ts';
import { compareText, passesAll, type ValueReference } from '../../src/definition/operators.ts';
import type { FieldPlace, KeyPath } from '../../src/definition/places.ts';
import { UNSET_CLOCK } from '../../src/kernel/timestamp.ts';
import type { LoggedRow } from '../../src/store/event-log.ts';

/** Sort key of events: timestamp, receipt, message id. */
export type When = readonly [timestamp: number, receivedAt: number, messageId: string];

/** An event of the log as the live computation reads it. Its timestamp is never later than its receipt. */
export type LiveEvent = LoggedRow;

/** An event without its ids. */
export type Said = Omit<LiveEvent, 'userId' | 'anonymousId' | 'previousId'>;

/** The body of a message as written on acceptance. */
interface Body {
  readonly messageId: string;
  readonly type: string;
  readonly event?: string;
  readonly name?: unknown;
  readonly userId?: string;
  readonly 'User ID'?: string;
  readonly anonymousId?: string;
  readonly 'Previous ID'?: string;
  readonly timestamp: string;
  readonly receivedAt: string;
  readonly properties?: unknown;
  readonly traits?: unknown;
  readonly context?: unknown;
}

/** The earliest time in the log's SQL. */
const FIRST_DAY = Date.parse('0001-01-01T00:00:00.000Z');

/** Reads the body of a message the way the views of the log do. */
export function readEvent(body: string): LiveEvent {
  const said = JSON.parse(body) as Body;
  const receivedAt = Date.parse(said.receivedAt);
  return {
    messageId: said.messageId,
    type: said.type,
    event: nameIn(said),
    userId: said.userId ?? said['User ID'] ?? null,
    anonymousId: said.anonymousId ?? null,
    previousId: said['Previous ID'] ?? null,
    timestamp: timestampOf(said.timestamp, receivedAt),
    receivedAt,
    properties: said.properties,
    traits: said.traits,
    context: said.context,
  };
}

function nameIn({ type, event, name }: Body): string | null {
  if (type === 'track') return event ?? null;
  return (type === 'page' || type === 'screen') && typeof name === 'string' ? name : null;
}

/** Parses a timestamp. Years beyond four digits are later than any receipt, or earlier than anything counted. */
function timestampOf(said: string, receivedAt: number): number {
  if (said.startsWith('+')) return receivedAt;
  if (said.startsWith('-') || said.startsWith('0000')) return FIRST_DAY;
  return Math.min(Date.parse(said), receivedAt);
}

/**
 * The time that decides who was first, as the log's `likely_at`.
 *
 * @param keep - how long the log keeps events, in milliseconds
 */
export function likelyTime(timestamp: number, receivedAt: number, keep: number): number {
  return timestamp < UNSET_CLOCK || timestamp < receivedAt - keep ? receivedAt : timestamp;
}

const DAY = 86_400_000;

/** The UTC day of a time, counted from 1970. The log forgets by day of receipt. */
export const dayNumber = (at: number) => Math.floor(at / DAY);

export function whenOf({ timestamp, receivedAt, messageId }: Said): When {
  return [timestamp, receivedAt, messageId];
}

export function compareWhen(a: When, b: When): number {
  return a[0] - b[0] || a[1] - b[1] || compareText(a[2], b[2]);
}

/** The value at a path of nested objects. Lists have no keys. */
export function valueAt(from: unknown, path: KeyPath): unknown {
  let value = from;
  for (const key of path) {
    if (typeof value !== 'object' || value === null || Array.isArray(value) || !Object.hasOwn(value, key)) return;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

export function placeIn(event: Said, { part, path }: FieldPlace): unknown {
  return valueAt(event[part], path);
}

/** @param filters - ones that depend on the event alone */
export function passesFilters(event: Said, filters: readonly PlaceFilter[]): boolean {
  const resolve = (reference: ValueReference) =>
    'property' in reference ? placeIn(event, reference.property) : undefined;
  return filters.every((filter) => passesAll(placeIn(event, filter), filter.tests, { now: 0, resolve }));
}
