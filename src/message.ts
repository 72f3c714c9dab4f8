import * as z from 'zod';
import { pageKeys } from '../receivers/kinds.ts';
import type { ErrorCode } from './kernel/errors.ts';
import { type IpRule, withIp } from './kernel/ip.ts';
import { isPlaceholder } from './kernel/placeholders.ts';
import { correctedTime, isoInstant, isoTime, otherInstant, UNSET_CLOCK } from './kernel/timestamp.ts';
import { CLIENT_TYPES, type ClientType, MAX_ID_BYTES, type MessageType } from './message-types.ts';

/** A message in the pipeline: the fields that routing needs, and the body, made once for all destinations. */
export interface Message {
  readonly type: MessageType;
  /** Deduplicated per source. */
  readonly messageId: string;
  readonly userId: string | null;
  /** Name of the event (track only). */
  readonly event?: string | undefined;
  /** Destinations switched on or off for this message; null if it names none. */
  readonly integrations: Readonly<Record<string, unknown>> | null;
  /** The webhook body (docs/wire.md) as JSON text. */
  readonly body: string;
  /** Names the user and audience of a membership change, so that a newer one supersedes it. */
  readonly conflict?: string;
  /** A further conflict key whose messages it supersedes. */
  readonly replaces?: string;
}

interface Rejection {
  readonly code: ErrorCode;
  readonly message: string;
}

/** Values that a message takes from its request. */
export interface MessageEnvelope {
  /** The kind named by the path; items of a batch name their own. */
  readonly type?: MessageType;
  readonly receivedAt: number;
  /** Time of sending by the client's clock; a number has been parsed already. */
  readonly sentAt?: unknown;
  readonly context?: Readonly<Record<string, unknown>>;
  readonly integrations?: Readonly<Record<string, unknown>>;
  /** Treatment of `context.ip`; kept as given if absent. */
  readonly ip?: IpRule;
  /** Makes an id for a message without one. */
  readonly newId: () => string;
  /** Called with the name of a time field that can't be parsed. */
  readonly onUnreadable?: (field: TimeField) => void;
  /** Called for a message that links no ids, because one of them means nobody. */
  readonly onPlaceholder?: (input: unknown) => void;
}

export type TimeField = 'timestamp' | 'sentAt';

/** Largest call or item of a batch, in bytes of JSON. */
export const MAX_MESSAGE_BYTES = 32 * 1024;
/** Levels of nesting; the parsers of common languages give up from 512 on. */
const MAX_DEPTH = 500;

// Free-form objects are not walked: that costs more than parsing them did.
const object = (code: ErrorCode) =>
  z
    .custom<Record<string, unknown>>((value) => isPlainObject(value) || isEmptyList(value), code)
    .meta({ type: 'object' })
    .nullish();
const id = z.custom<string | number>(isId, 'id_not_string' satisfies ErrorCode).meta({ type: ['string', 'number'] });
const optionalId = id
  .refine((value) => !isLongId(value), 'id_too_long' satisfies ErrorCode)
  .meta({ maxLength: MAX_ID_BYTES })
  .nullish();

const common = {
  userId: optionalId,
  anonymousId: optionalId,
  messageId: id
    .refine((value) => String(value).length <= 100, 'id_too_long' satisfies ErrorCode)
    .meta({ maxLength: 100 })
    .nullish(),
  context: object('context_not_object'),
  integrations: object('integrations_not_object'),
};

/** Schemas of client messages, by kind. Other fields pass through: the schemas only check the input, which is kept. */
export const messageSchemas = {
  identify: z.object({ ...common, traits: object('traits_not_object') }),
  track: z.object({
    ...common,
    event: z
      .custom((event) => event !== undefined && event !== null && event !== '', 'event_not_defined' satisfies ErrorCode)
      .pipe(z.string('event_not_string' satisfies ErrorCode))
      .meta({ type: 'string' }),
    properties: object('properties_not_object'),
  }),
  page: z.object({
    ...common,
    name: z.string('name_not_string' satisfies ErrorCode).nullish(),
    properties: object('properties_not_object'),
  }),
  screen: z.object({
    ...common,
    name: z.string('name_not_string' satisfies ErrorCode).nullish(),
    properties: object('properties_not_object'),
  }),
  group: z.object({ ...common, groupId: optionalId, traits: object('traits_not_object') }),
  alias: z.object({ ...common, previousId: optionalId }),
} as const satisfies Readonly<Record<ClientType, z.ZodObject>>;

const EXPLANATIONS: Partial<Record<ErrorCode, string>> = {
  id_not_string:
    'userId, anonymousId, groupId, previousId and messageId must be strings without NUL characters, or numbers up to 2^53.',
  id_too_long: 'messageId must not be longer than 100 characters, other ids not longer than 1,000 bytes.',
  traits_not_object: 'traits must be an object.',
  properties_not_object: 'properties must be an object.',
  context_not_object: 'context must be an object.',
  integrations_not_object: 'integrations must be an object.',
  event_not_defined: 'A track needs an event name.',
  event_not_string: 'event must be a string.',
  name_not_string: 'name must be a string.',
  no_user_anon_id: 'A userId or an anonymousId is needed.',
  no_group_id: 'A group needs a groupId.',
  no_previous_id: 'An alias needs a previousId.',
  no_user_id: 'An alias needs a userId.',
  unknown_type: `type must be one of ${CLIENT_TYPES.join(', ')}.`,
  invalid_message: 'A message must be a JSON object.',
  too_large: 'A message must not be larger than 32 KB.',
  too_deep: `A message must not be nested deeper than ${MAX_DEPTH} levels.`,
};

/**
 * Checks a client's input and returns its message, or the reason to reject it. Leaves the input unchanged.
 *
 * @param sentBytes - length of the request: the input is only measured if that is over the limit of a message
 */
export function readMessage(
  input: unknown,
  envelope: MessageEnvelope,
  sentBytes = Number.POSITIVE_INFINITY,
): Message | Rejection {
  if (!isPlainObject(input)) return rejection('invalid_message');
  const type = envelope.type ?? input['type'];
  if (!isClientType(type)) return rejection('unknown_type');
  const checked = messageSchemas[type].safeParse(input);
  if (!checked.success) return rejection((checked.error.issues[0]?.message ?? 'invalid_message') as ErrorCode);
  const missing = missingId(type, input);
  if (missing) return rejection(missing);
  if (envelope.onPlaceholder && linksNobody(type, input)) envelope.onPlaceholder(input);
  const messageId = idText(input['messageId']) ?? envelope.newId();
  const integrations = mergedIntegrations(envelope.integrations, input['integrations']);
  const body = bodyText(webhookBody(type, messageId, input, integrations, envelope));
  if (body === null) return rejection('too_deep');
  if (sentBytes > MAX_MESSAGE_BYTES && isTooLarge(input, body)) return rejection('too_large');
  return {
    type,
    messageId,
    userId: idText(input['userId']),
    event: type === 'track' ? (input['event'] as string).toWellFormed() : undefined,
    integrations: integrations && Object.keys(integrations).length > 0 ? integrations : null,
    body,
  };
}

/** True if a message would link ids, but one of them means nobody. */
function linksNobody(type: ClientType, { userId, anonymousId, previousId }: Record<string, unknown>): boolean {
  const linked = type === 'identify' ? anonymousId : type === 'alias' ? previousId : null;
  const ids = [idText(userId), idText(linked)];
  return ids.every((id) => id !== null) && ids.some(isPlaceholder);
}

export function isRejection(result: Message | Rejection): result is Rejection {
  return 'code' in result;
}

/** The notice that a user must be deleted: no version, no context (docs/wire.md). */
export function deletionNotice(userId: string, messageId: string, at: number): Message {
  const body = JSON.stringify({ type: 'delete', userId, timestamp: new Date(at).toISOString() });
  return { type: 'delete', messageId, userId, integrations: null, body };
}

/** Fields of the input that no body takes over: they describe the transport, or Rollcall writes its own. */
const LEFT_OUT = ['version', 'originalTimestamp', 'receivedAt', 'sentAt', 'writeKey', '_metadata', '__proto__'];
/** Fields that Rollcall writes itself, or leaves out. */
const OWN_FIELDS = new Set(['type', 'messageId', 'timestamp', 'context', 'integrations', ...LEFT_OUT]);
/** An alias has the ids under names of its own (docs/wire.md). */
const OWN_FIELDS_OF_ALIAS = new Set([...OWN_FIELDS, 'userId', 'previousId', 'User ID', 'Previous ID']);
const IDS = new Set(['userId', 'anonymousId', 'groupId', 'previousId']);
const OBJECTS = new Set(['traits', 'properties']);
/** The object that a kind always has (docs/wire.md). */
const DETAILS = {
  ...{ identify: 'traits', group: 'traits', track: 'properties', page: 'properties' },
  ...{ screen: null, alias: null },
} as const;

function webhookBody(
  type: ClientType,
  messageId: string,
  input: Record<string, unknown>,
  integrations: Record<string, unknown> | null,
  envelope: MessageEnvelope,
): Record<string, unknown> {
  const body: Record<string, unknown> = { version: 1, type, messageId };
  const own = type === 'alias' ? OWN_FIELDS_OF_ALIAS : OWN_FIELDS;
  if (type === 'alias') {
    body['Previous ID'] = idText(input['previousId']);
    body['User ID'] = idText(input['userId']);
  }
  for (const name of Object.keys(input)) {
    if (own.has(name)) continue;
    const value = normalised(name, input[name]);
    if (value !== null) body[name] = value;
  }
  const details = DETAILS[type];
  if (details !== null) body[details] ??= (type === 'identify' ? traitsInContext(input['context']) : null) ?? {};
  if (type === 'page') body['properties'] = pageProperties(body['properties'] as Record<string, unknown>);
  if (integrations !== null) body['integrations'] = integrations;
  writeTimestamps(body, input, envelope);
  const context = withoutMarks(merged(envelope.context, input['context']) ?? {});
  body['context'] = envelope.ip === undefined ? context : withIp(context, envelope.ip);
  return body;
}

/** The keys in a context that mark the changes of audiences and traits, replays and tests (docs/wire.md). */
const MARKS = ['personas', 'replay', 'test'];

/** Receivers trust the marks, and write keys are no secret: no collected message may have one. */
function withoutMarks(context: Record<string, unknown>): Record<string, unknown> {
  if (!MARKS.some((mark) => Object.hasOwn(context, mark))) return context;
  return Object.fromEntries(Object.entries(context).filter(([name]) => !MARKS.includes(name)));
}

/** Rudder's library for browsers puts the traits of an identify only into its context. */
function traitsInContext(context: unknown): Record<string, unknown> | null {
  const { traits } = (context ?? {}) as { readonly traits?: unknown };
  return isPlainObject(traits) ? traits : null;
}

/** Turns ids into text, and `[]` into an object: languages with one type for lists and objects write an empty one so. */
function normalised(name: string, value: unknown): unknown {
  if (IDS.has(name)) return isId(value) ? idText(value) : value;
  return OBJECTS.has(name) && isEmptyList(value) ? {} : value;
}

/** A page's own properties (`pageKeys`) are strings (docs/wire.md): numbers and booleans become text, all else is left out. */
function pageProperties(properties: Record<string, unknown>): Record<string, unknown> {
  const others = pageKeys.filter((key) => properties[key] !== undefined && typeof properties[key] !== 'string');
  if (others.length === 0) return properties;
  const result = { ...properties };
  for (const key of others) {
    const value = properties[key];
    if (typeof value === 'number' || typeof value === 'boolean') result[key] = String(value);
    else delete result[key];
  }
  return result;
}

/**
 * Writes `receivedAt − (sentAt − originalTimestamp)` if the client gave `sentAt`, else the given time. Keeps the given
 * one as `originalTimestamp`, unless it is the same in ISO 8601.
 */
function writeTimestamps(
  body: Record<string, unknown>,
  input: Record<string, unknown>,
  { receivedAt, sentAt, onUnreadable }: MessageEnvelope,
): void {
  const original = input['timestamp'] ?? input['originalTimestamp'] ?? null;
  const iso = isoInstant(original);
  const given = iso ?? otherInstant(original);
  const sent = given === null ? null : sentInstant(given, input['sentAt'], sentAt, onUnreadable);
  const timestamp = given === null ? receivedAt : correctedTime(receivedAt, given, sent);
  body['timestamp'] = isoTime(timestamp);
  if (original !== null && iso !== timestamp) body['originalTimestamp'] = original;
  if (original !== null && given === null) onUnreadable?.('timestamp');
  body['receivedAt'] = isoTime(receivedAt);
}

/** Time of sending, from the message itself or from its batch. A clock that was unset gave both times, or it is useless. */
function sentInstant(
  given: number,
  own: unknown,
  ofBatch: unknown,
  onUnreadable: MessageEnvelope['onUnreadable'],
): number | null {
  const sentAt = own ?? ofBatch ?? null;
  if (sentAt === null) return null;
  const isRead = sentAt === ofBatch && typeof ofBatch === 'number';
  const sent = isRead ? ofBatch : (isoInstant(sentAt) ?? otherInstant(sentAt));
  if (sent !== null && (sent >= UNSET_CLOCK || given < UNSET_CLOCK)) return sent;
  onUnreadable?.('sentAt');
  return null;
}

/** Null if it is nested too deep. */
function bodyText(body: Record<string, unknown>): string | null {
  const json = toJson(body);
  // Counting brackets spares nearly all messages the walk, which costs as much as writing the text.
  if (json === null || (hasBrackets(json, MAX_DEPTH) && !isShallow(body))) return null;
  return withoutTraps(json);
}

/** Null if the nesting exceeds the engine's stack. JSON.parse has no such limit. */
function toJson(value: unknown): string | null {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** True if the text has more than `count` opening brackets. */
function hasBrackets(json: string, count: number): boolean {
  let left = count;
  for (const bracket of '{[')
    for (let at = json.indexOf(bracket); at !== -1; at = json.indexOf(bracket, at + 1)) {
      left -= 1;
      if (left < 0) return true;
    }
  return false;
}

export function isShallow(value: unknown, levels = MAX_DEPTH): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return levels > 0 && Object.values(value).every((inner) => isShallow(inner, levels - 1));
}

/** A backslash, so that what follows it is read as text, or half of a surrogate pair, which JSON.stringify escapes. */
const HALF = /\\\\|\\ud[89a-f][\da-f]{2}/g;

/**
 * JSON text, as JSON.stringify writes it, without what is a trap for receivers: keys named `__proto__`, and halves of
 * surrogate pairs, which PHP, Ruby, jq and Postgres refuse (U+FFFD stands in their place).
 */
export function withoutTraps(json: string): string {
  if (!json.includes('__proto__') && !json.includes('\\ud')) return json;
  const whole = json.replaceAll(HALF, (match) => (match === '\\\\' ? match : '\ufffd'));
  return JSON.stringify(JSON.parse(whole, (key, value) => (key === '__proto__' ? undefined : value)));
}

/** Measures the input only if its body, with what the body leaves out, comes near the limit. */
function isTooLarge(input: Record<string, unknown>, body: string): boolean {
  const leftOut = toJson(LEFT_OUT.map((name) => input[name]))?.length ?? MAX_MESSAGE_BYTES;
  if (body.length + leftOut < MAX_MESSAGE_BYTES / 4) return false;
  const json = toJson(input);
  return json === null || Buffer.byteLength(json) > MAX_MESSAGE_BYTES;
}

/** The batch's `context` or `integrations`, overridden by the message's own; null if neither has any. */
function merged(shared: Readonly<Record<string, unknown>> | undefined, own: unknown): Record<string, unknown> | null {
  const given = isPlainObject(own) ? own : isEmptyList(own) ? {} : null;
  return shared === undefined ? given : { ...shared, ...given };
}

/** Like `merged`, for the integrations object, in which `all` and `All` are one name. */
function mergedIntegrations(
  shared: Readonly<Record<string, unknown>> | undefined,
  own: unknown,
): Record<string, unknown> | null {
  if (shared === undefined || !isPlainObject(own)) return merged(shared, own);
  if (!Object.hasOwn(own, 'all') && !Object.hasOwn(own, 'All')) return { ...shared, ...own };
  const { all: _all, All: _All, ...others } = shared;
  return { ...others, ...own };
}

function isClientType(type: unknown): type is ClientType {
  return typeof type === 'string' && Object.hasOwn(messageSchemas, type);
}

function missingId(type: ClientType, input: Record<string, unknown>): ErrorCode | null {
  if (type === 'alias') {
    if (idText(input['previousId']) === null) return 'no_previous_id';
    return idText(input['userId']) === null ? 'no_user_id' : null;
  }
  if (type === 'group' && idText(input['groupId']) === null) return 'no_group_id';
  return (idText(input['userId']) ?? idText(input['anonymousId'])) === null ? 'no_user_anon_id' : null;
}

function rejection(code: ErrorCode): Rejection {
  return { code, message: EXPLANATIONS[code] ?? code };
}

/** Postgres can't store a NUL character, and a whole number beyond 2^53 has lost digits in the parser: it is another id. */
function isId(value: unknown): value is string | number {
  if (typeof value === 'string') return !value.includes('\0');
  return typeof value === 'number' && (Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value));
}

function isLongId(id: string | number): boolean {
  return typeof id === 'string' && id.length > MAX_ID_BYTES / 3 && Buffer.byteLength(id) > MAX_ID_BYTES;
}

/** Null if the id is absent or blank. */
function idText(value: unknown): string | null {
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value.trim() !== '' ? value.toWellFormed() : null;
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
