import * as z from 'zod';
import {
  type Context,
  type IdentifyBody,
  type JsonObject,
  type Kind,
  kinds,
  type Personas,
  type TrackBody,
  type WebhookBody,
  webhookBody,
} from '../bodies.ts';
import { isPlain } from './plain.ts';

/** An alias with convenient names. On the wire its fields are `"Previous ID"` and `"User ID"`. */
export interface AliasMessage {
  type: 'alias';
  version: 1;
  previousId: string;
  userId: string;
  timestamp: string;
  context: Context;
}

/** The message that a handler receives, by kind. */
export type MessageOf = { [K in Kind]: K extends 'alias' ? AliasMessage : Extract<WebhookBody, { type: K }> };

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

/**
 * `__proto__` keys are dropped: they would become a prototype when a handler copies the object.
 *
 * @throws SyntaxError
 */
export function parseJson(text: string): unknown {
  // Search for plain text first: the expression alone would cost as much as reading the request.
  const escaped = text.includes('__proto__') || text.includes('\\u00');
  if (!escaped || !suspicious.test(text)) return JSON.parse(text);
  return JSON.parse(text, (key, value) => (key === '__proto__' ? undefined : value));
}

function fromWire(body: WebhookBody): Message {
  if (body.type !== 'alias') return body;
  const { version, timestamp, context } = body;
  return { type: 'alias', version, previousId: body['Previous ID'], userId: body['User ID'], timestamp, context };
}

export const fault = (reason: BodyFault, detail: string): Parsed & { ok: false } => ({ ok: false, reason, detail });

/** Checks parsed JSON. Never throws. */
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

/** The identify or track calls of audiences and computed traits. */
export interface ComputedCalls {
  readonly form: 'identify' | 'track';
  readonly kind: 'audience' | 'trait';
  /** The key of the audience or trait. */
  readonly key: string;
  readonly id: string;
  readonly userId: string;
  readonly sequence: number | undefined;
}

/** The audience or trait that a message is about, if it is the call of one. */
export function computedOf(message: Message | UnknownMessage): ComputedCalls | undefined {
  const { type: form } = message;
  if (form !== 'identify' && form !== 'track') return undefined;
  const { userId, context } = message as IdentifyBody | TrackBody;
  const { computation_class: kind, computation_key: key, computation_id: id, sequence } = context.personas ?? {};
  if ((kind !== 'audience' && kind !== 'trait') || typeof key !== 'string' || userId === undefined) return undefined;
  // Our sequences are safe integers.
  const isSequence = Number.isSafeInteger(sequence) && (sequence as number) >= 0;
  return {
    form,
    kind,
    key,
    id: typeof id === 'string' ? id : key,
    userId,
    sequence: isSequence ? sequence : undefined,
  };
}

/** A change of an audience or computed trait, the same from an identify and from an event. */
export interface ComputedBody<Columns = JsonObject>
  extends Omit<IdentifyBody, 'type'>,
    Pick<Personas, 'reason' | 'cause' | 'changedAt'> {
  type: 'identify' | 'track';
  userId: string;
  /** The columns of an audience that came with the change. */
  columns: Columns;
}

/** The traits of an identify, from either form. */
export function traitsIn(message: IdentifyBody | TrackBody, kind: ComputedCalls['kind']): JsonObject {
  if (message.type === 'identify') return message.traits;
  const { [`${kind}_key`]: _key, [`${kind}_name`]: _name, ...traits } = message.properties;
  return traits;
}

/** The change as its handler gets it. */
export function changeIn(message: IdentifyBody | TrackBody, { kind, key, userId }: ComputedCalls): ComputedBody {
  const { reason, cause, changedAt } = message.context.personas ?? {};
  const traits = traitsIn(message, kind);
  const { [key]: _value, ...columns } = traits;
  return { ...message, userId, reason, cause, changedAt, traits, columns };
}
