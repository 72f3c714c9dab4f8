import { z } from 'zod';
import {
  type AliasBody,
  type Context,
  type DeleteBody,
  type GroupBody,
  type IdentifyBody,
  type JsonObject,
  type Kind,
  kinds,
  type PageBody,
  type ScreenBody,
  type TrackBody,
  type WebhookBody,
  webhookBody,
} from './bodies.ts';
import { textOf } from './bytes.ts';
import { isPlain } from './plain.ts';

/** Alias with names that can be typed; on the wire they are `"Previous ID"` and `"User ID"`. */
export interface AliasMessage {
  type: 'alias';
  version: 1;
  previousId: string;
  userId: string;
  timestamp: string;
  context: Context;
}

/** The message that a handler gets, by kind. */
export interface MessageOf {
  identify: IdentifyBody;
  track: TrackBody;
  page: PageBody;
  screen: ScreenBody;
  group: GroupBody;
  alias: AliasMessage;
  delete: DeleteBody;
}

/** A verified and parsed message of any of the seven kinds. */
export type Message = MessageOf[Kind];

/** A message of a kind that this version of the kit does not know. */
export type UnknownMessage = JsonObject & { type: string };

/** Why bytes are not a message. */
export type BodyFault = 'empty_body' | 'invalid_json' | 'array_body' | 'invalid_batch' | 'invalid_body';

export type Parsed =
  | { ok: true; known: true; message: Message }
  | { ok: true; known: false; message: UnknownMessage }
  | { ok: false; reason: BodyFault; detail: string };

const known: ReadonlySet<string> = new Set(kinds);
// "__proto__", also with any of its characters escaped.
const suspicious = /__proto__|\\u00(?:5f|6f|7[024])/i;

/** `__proto__` keys are dropped: they would become a prototype when a handler copies the object. */
function parseJson(text: string): unknown {
  // Searching for plain text first: the expression alone would cost as much as reading the request.
  const escaped = text.includes('__proto__') || text.includes('\\u00');
  if (!escaped || !suspicious.test(text)) return JSON.parse(text);
  return JSON.parse(text, (key, value) => (key === '__proto__' ? undefined : value));
}

function fromWire(body: WebhookBody): Message {
  if (body.type !== 'alias') return body;
  const { version, timestamp, context } = body satisfies AliasBody;
  return { type: 'alias', version, previousId: body['Previous ID'], userId: body['User ID'], timestamp, context };
}

const fault = (reason: BodyFault, detail: string): Parsed => ({ ok: false, reason, detail });

/** Several messages in one request, each with the Idempotency-Key that it would have had alone. */
export interface Batch {
  /** Values that would have been the bodies; whoever takes one may let go of it here. */
  items: unknown[];
  keys: readonly string[];
  /** Milliseconds since 1970. */
  sentAt: number;
}

/** Messages of one batch at most; a sender puts fewer into its million bytes. */
const BATCH_LIMIT = 10_000;

/** The body of a request: one message, or a batch. */
export type ParsedBody = Parsed | { ok: true; batch: Batch };

/** Turns the bytes of a request body into a message or a batch; never throws. */
export function parseBody(bytes: Uint8Array): ParsedBody {
  if (bytes.length === 0) return fault('empty_body', 'the body is empty');
  let value: unknown;
  try {
    value = parseJson(textOf(bytes));
  } catch (error) {
    return fault('invalid_json', String(error));
  }
  if (typeof value === 'object' && value !== null && 'batch' in value && !('type' in value)) return parseBatch(value);
  return parseValue(value);
}

/** Turns the bytes of a request body into a message; never throws. */
export function parseMessage(bytes: Uint8Array): Parsed {
  const parsed = parseBody(bytes);
  return 'batch' in parsed ? fault('invalid_body', 'expected one message, got a batch') : parsed;
}

function parseBatch(value: { batch: unknown; keys?: unknown; sentAt?: unknown }): ParsedBody {
  const { batch: items, keys, sentAt } = value;
  if (!Array.isArray(items) || items.length === 0 || items.length > BATCH_LIMIT) {
    return fault('invalid_batch', `batch is a list of 1 to ${BATCH_LIMIT} messages`);
  }
  if (
    !Array.isArray(keys) ||
    keys.length !== items.length ||
    !keys.every((key) => typeof key === 'string' && key !== '')
  ) {
    return fault('invalid_batch', 'keys is a list of texts, one for each message');
  }
  const at = typeof sentAt === 'string' ? Date.parse(sentAt) : Number.NaN;
  if (Number.isNaN(at)) return fault('invalid_batch', 'sentAt is an ISO 8601 time');
  return { ok: true, batch: { items, keys, sentAt: at } };
}

/** The messages of a body that {@link parseBody} has found to be a batch, as no handler has changed them. */
export function itemsOf(bytes: Uint8Array): readonly unknown[] {
  return (parseJson(textOf(bytes)) as { batch: readonly unknown[] }).batch;
}

/** Checks what JSON gave; never throws. */
export function parseValue(value: unknown): Parsed {
  if (Array.isArray(value)) return fault('array_body', 'expected one message, got an array');
  if (typeof value !== 'object' || value === null) return fault('invalid_body', 'expected an object');
  const { type } = value as JsonObject;
  if (typeof type === 'string' && !known.has(type)) return { ok: true, known: false, message: value as UnknownMessage };
  if (isPlain(value as JsonObject)) return { ok: true, known: true, message: fromWire(value as WebhookBody) };
  const result = webhookBody.safeParse(value);
  if (!result.success) return fault('invalid_body', z.prettifyError(result.error));
  return { ok: true, known: true, message: fromWire(result.data) };
}

/** The identify calls of audiences and computed traits. */
export interface Computed {
  readonly kind: 'audience' | 'trait';
  /** The key of the audience or trait. */
  readonly key: string;
  readonly id: string;
  readonly userId: string;
  readonly sequence: number | undefined;
}

/** The audience or trait that a message speaks of, if it is the call of one. */
export function computedOf(message: Message | UnknownMessage): Computed | undefined {
  if (message.type !== 'identify') return undefined;
  const { userId, context } = message as Extract<Message, { type: 'identify' }>;
  const { computation_class: kind, computation_key: key, computation_id: id, sequence } = context.personas ?? {};
  if ((kind !== 'audience' && kind !== 'trait') || typeof key !== 'string' || userId === undefined) return undefined;
  // A fraction or a number beyond what a double counts is no sequence of ours.
  const isSequence = Number.isSafeInteger(sequence) && (sequence as number) >= 0;
  return { kind, key, id: typeof id === 'string' ? id : key, userId, sequence: isSequence ? sequence : undefined };
}
