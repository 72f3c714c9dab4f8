import type { ClientClock } from './clock.ts';
import { ClientError, type ClientErrorCode, textOf } from './errors.ts';

/** Largest message in bytes of UTF-8 JSON, as sent. */
export const MAX_MESSAGE_BYTES = 32_000;

/**
 * Free-form values. A `Map` is sent as an object and a `Set` as an array; values that `JSON.stringify` omits are not
 * sent. An object of any type, with or without an index signature, but no array.
 */
export type Fields = Record<string, unknown> | (object & { readonly [Symbol.iterator]?: never });

/** Events of any name with any properties. */
export type AnyEvents = Record<string, Fields>;

/** Fields that every message may carry. */
export interface Common {
  /** Time of the event: a Date, or ISO 8601 text that is sent as given. Default: now. */
  timestamp?: Date | string | undefined;
  /** Identifies the message over retries, 1 to 99 characters. Default: a random UUID. */
  messageId?: string | undefined;
  /** Circumstances of the event: `ip`, `userAgent`, `app`, …. */
  context?: Fields | undefined;
  /** Destination name → false (do not send) or true; `All: false` disables every one not set true. */
  integrations?: Fields | undefined;
}

/** The user: a `userId`, an `anonymousId`, or both. */
export interface Who {
  userId?: string | null | undefined;
  anonymousId?: string | null | undefined;
}

export interface IdentifyMessage extends Common, Who {
  traits?: Fields | undefined;
}

/** One of `Events`, with its properties, which are optional if none of them is required. */
export type TrackMessage<Events extends object = AnyEvents> = {
  [Name in keyof Events & string]: Common & Who & { event: Name } & Properties<Events[Name]>;
}[keyof Events & string];

type Properties<Wanted> = object extends Wanted
  ? { properties?: Wanted | undefined }
  : Record<never, never> extends Wanted
    ? { properties?: Wanted | undefined }
    : { properties: Wanted };

export interface PageMessage extends Common, Who {
  name?: string | undefined;
  category?: string | undefined;
  /** `url`, `title`, `referrer`, `path` and any others. */
  properties?: Fields | undefined;
  /** Alias of `properties`, which win if both have a key. */
  traits?: Fields | undefined;
}

export interface ScreenMessage extends PageMessage {}

export interface GroupMessage extends Common, Who {
  groupId: string;
  traits?: Fields | undefined;
}

export interface AliasMessage extends Common {
  userId: string;
  previousId: string;
}

/** Fields of all kinds, as an untyped caller may pass them. */
export interface AnyMessage extends Common, Who {
  event?: unknown;
  name?: unknown;
  category?: unknown;
  groupId?: string | null | undefined;
  previousId?: string | null | undefined;
  properties?: Fields | undefined;
  traits?: Fields | undefined;
}

export type MessageKind = 'identify' | 'track' | 'page' | 'screen' | 'group' | 'alias';

export interface Tools {
  clock: Pick<ClientClock, 'now' | 'uuid'>;
  /** Bytes of UTF-8. */
  byteLength(text: string): number;
}

/**
 * Checks a message and writes it as the JSON that is sent. Serialised at the call, so that later changes to the
 * objects passed in do not reach it.
 *
 * @throws ClientError naming the field that is missing or wrong; `too_large` over {@link MAX_MESSAGE_BYTES}.
 */
export function serialize(type: MessageKind, message: AnyMessage, { clock, byteLength }: Tools): string {
  check(type, message);
  const paged = type === 'page' || type === 'screen';
  const fields = {
    type,
    messageId: message.messageId ?? clock.uuid(),
    timestamp: timestamp(message.timestamp ?? undefined, clock),
    userId: message.userId || undefined,
    anonymousId: message.anonymousId || undefined,
    previousId: message.previousId || undefined,
    groupId: message.groupId || undefined,
    event: message.event,
    name: message.name ?? undefined,
    category: message.category ?? undefined,
    properties:
      (paged && message.traits ? { ...plain(message.traits), ...plain(message.properties) } : message.properties) ??
      undefined,
    traits: paged ? undefined : (message.traits ?? undefined),
    context: message.context ?? undefined,
    integrations: message.integrations ?? undefined,
  } satisfies Record<keyof AnyMessage | 'type', unknown>;
  return limited(type, stringify(type, fields), byteLength);
}

/** Puts U+FFFD in place of halves of surrogate pairs, as cut emoji leave them: many parsers refuse them. */
function wellFormed(json: string): string {
  if (!json.includes('\\ud')) return json;
  return json.replaceAll(/\\\\|\\ud[89a-f][\da-f]{2}/g, (match) => (match === '\\\\' ? match : '\ufffd'));
}

function stringify(type: MessageKind, fields: object): string {
  try {
    const text = wellFormed(JSON.stringify(fields));
    // A Map or a Set becomes `{}`. A message without this text has none, and most have no such text.
    return text.includes('{}') ? wellFormed(JSON.stringify(fields, (_, value) => plain(value))) : text;
  } catch (cause) {
    if (cause instanceof ClientError) throw cause;
    const why = cause instanceof Error ? cause.message : textOf(cause);
    throw new ClientError('invalid_message', `${type} cannot be written as JSON: ${why}`, undefined, { cause });
  }
}

/** Converts a Map to an object and a Set to an array; returns other values unchanged. */
export function plain<Value>(value: Value): Value | object {
  if (value instanceof Set) return [...value];
  if (!(value instanceof Map)) return value;
  const object: Record<string, unknown> = Object.create(null);
  for (const [key, inner] of value) {
    if (typeof key !== 'string' && typeof key !== 'number') {
      throw new ClientError('invalid_message', `a Map is sent as an object: ${typeof key} cannot be a key of one`);
    }
    object[key] = inner;
  }
  return object;
}

function limited(type: MessageKind, text: string, byteLength: Tools['byteLength']): string {
  // UTF-8 takes at most 3 bytes for a unit of the string, so most messages need no count.
  if (text.length * 3 <= MAX_MESSAGE_BYTES) return text;
  const bytes = byteLength(text);
  if (bytes > MAX_MESSAGE_BYTES) {
    throw new ClientError('too_large', `${type} has ${bytes} bytes, at most ${MAX_MESSAGE_BYTES} are allowed`);
  }
  return text;
}

/** @throws ClientError naming the field that is missing or wrong */
export function check(type: MessageKind, m: AnyMessage): void {
  if (!isObject(m)) throw new ClientError('invalid_message', `${type} takes an object`);
  if (type === 'track') {
    if (!isGiven(m.event) || m.event === '') fail('event_not_defined', 'event', 'is required');
    if (typeof m.event !== 'string') fail('event_not_string', 'event', 'must be a string');
  }
  const user = hasId('userId', m.userId);
  if (type === 'alias') {
    if (!user) fail('no_user_id', 'userId', 'is required');
    if (!hasId('previousId', m.previousId)) fail('no_previous_id', 'previousId', 'is required');
  } else if (!hasId('anonymousId', m.anonymousId) && !user) {
    fail('no_user_anon_id', 'userId', 'or anonymousId is required');
  }
  if (type === 'group' && !hasId('groupId', m.groupId)) fail('no_group_id', 'groupId', 'is required');
  if (isGiven(m.messageId)) checkMessageId(m.messageId);
  if (isGiven(m.name) && typeof m.name !== 'string') fail('name_not_string', 'name', 'must be a string');
  object('properties_not_object', 'properties', m.properties);
  object('traits_not_object', 'traits', m.traits);
  object('context_not_object', 'context', m.context);
  object('integrations_not_object', 'integrations', m.integrations);
}

/** True if an id is given; an empty one counts as absent. */
function hasId(field: string, id: unknown): boolean {
  if (!isGiven(id) || id === '') return false;
  if (typeof id !== 'string') fail('id_not_string', field, 'must be a string');
  return true;
}

function checkMessageId(id: unknown): void {
  if (typeof id !== 'string') fail('id_not_string', 'messageId', 'must be a string');
  else if (id.length < 1 || id.length > 99) fail('invalid_message', 'messageId', 'must have 1 to 99 characters');
}

function object(code: ClientErrorCode, field: string, value: unknown): void {
  if (isGiven(value) && (!isObject(value) || value instanceof Set)) fail(code, field, 'must be an object');
}

/** Untyped callers pass null for absent values. */
function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function timestamp(value: Date | string | undefined, clock: Tools['clock']): string {
  if (value === undefined) return new Date(clock.now()).toISOString();
  if (value instanceof Date) {
    if (!Number.isNaN(value.getTime())) return value.toISOString();
  } else if (typeof value === 'string' && /^\d{4}-\d\d-\d\d/.test(value) && !Number.isNaN(Date.parse(value))) {
    return value;
  }
  return fail('invalid_timestamp', 'timestamp', 'must be a Date or ISO 8601 text');
}

function fail(code: ClientErrorCode, field: string, what: string): never {
  throw new ClientError(code, `${field} ${what}`, field);
}
