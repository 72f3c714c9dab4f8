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
  webhookBody,
} from './bodies.ts';

/** Alias with names that can be typed; on the wire they are `"Previous ID"` and `"User ID"`. */
export interface AliasMessage {
  type: 'alias';
  version: 1;
  previousId: string;
  userId: string;
  timestamp: string;
  context: Context;
}

/** What a handler gets, by kind. */
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
export type BodyFault = 'empty_body' | 'invalid_json' | 'array_body' | 'invalid_body';

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

function fromWire(body: z.output<typeof webhookBody>): Message {
  if (body.type !== 'alias') return body;
  const { version, timestamp, context } = body satisfies AliasBody;
  return { type: 'alias', version, previousId: body['Previous ID'], userId: body['User ID'], timestamp, context };
}

const fault = (reason: BodyFault, detail: string): Parsed => ({ ok: false, reason, detail });

/** Turns the bytes of a request body into a message; never throws. */
export function parseMessage(bytes: Buffer): Parsed {
  if (bytes.length === 0) return fault('empty_body', 'the body is empty');
  let value: unknown;
  try {
    value = parseJson(bytes.toString('utf8'));
  } catch (error) {
    return fault('invalid_json', String(error));
  }
  if (Array.isArray(value)) return fault('array_body', 'expected one message, got an array');
  if (typeof value !== 'object' || value === null) return fault('invalid_body', 'expected an object');
  const { type } = value as JsonObject;
  if (typeof type === 'string' && !known.has(type)) return { ok: true, known: false, message: value as UnknownMessage };
  const result = webhookBody.safeParse(value);
  if (!result.success) return fault('invalid_body', z.prettifyError(result.error));
  return { ok: true, known: true, message: fromWire(result.data) };
}
