import { correctedTime, isoInstant, isoTime } from '../kernel/timestamp.ts';
import { type Envelope, MARK_TEXT, type Message } from '../message.ts';
import { MAX_ID_BYTES, type MessageType } from '../message-types.ts';
import { PLAIN } from './canonical-json.ts';
import { CANONICAL, FIELD, TEXT } from './outline.ts';
import { Words } from './words.ts';

/** How a field of a known name is handled; its place here is its code. */
const NAMES = [
  ...['type', 'messageId', 'userId', 'anonymousId', 'groupId', 'previousId', 'event', 'name', 'properties', 'traits'],
  ...['context', 'integrations', 'timestamp', 'originalTimestamp', 'sentAt'],
  ...['version', 'receivedAt', 'writeKey', '_metadata'],
] as const;
const code = (name: (typeof NAMES)[number]) => NAMES.indexOf(name);
const TYPE = code('type');
const MESSAGE_ID = code('messageId');
const USER_ID = code('userId');
const ANONYMOUS_ID = code('anonymousId');
const GROUP_ID = code('groupId');
const LAST_ID = code('previousId');
const EVENT = code('event');
const PROPERTIES = code('properties');
const TRAITS = code('traits');
const CONTEXT = code('context');
const INTEGRATIONS = code('integrations');
const TIMESTAMP = code('timestamp');
const ORIGINAL_TIMESTAMP = code('originalTimestamp');
const SENT_AT = code('sentAt');
const FIRST_SKIPPED = code('version');
const UNKNOWN = -1;
const names = new Words(NAMES);

/** An alias has fields of its own names. */
const TYPES = ['identify', 'track', 'page', 'screen', 'group'] as const satisfies MessageType[];
const types = new Words(TYPES);
const STARTS = TYPES.map((type) => `{"version":1,"type":"${type}",`);
const [IDENTIFY, TRACK, PAGE, GROUP] = [0, 1, 2, 4];
/** The object that each of them always carries. */
const DETAILS = [TRAITS, PROPERTIES, PROPERTIES, UNKNOWN, TRAITS];

const MAX_MESSAGE_ID = 100;
/** Each is compared with all before it. */
const MAX_UNKNOWN = 8;
const PAGE_STRINGS = ['path', 'referrer', 'title', 'url'];

const SPACE = 0x20;
const NINE = 0x39;
const ZERO = 0x30;

/** Where in the outline each known field of the message stands that is being read; one is at a time. */
const places = new Int32Array(NAMES.length);
const unknown = new Int32Array(MAX_UNKNOWN);

/** An object of a body that is nothing but ASCII: `text` has a character for each byte. */
interface Outlined {
  readonly bytes: Buffer;
  readonly text: string;
  /** Numbers by `FIELD`. */
  readonly fields: readonly number[];
}

/**
 * Makes the message of what nearly all libraries send by cutting its pieces from the text, without building or checking
 * anything twice. Null where the least thing is out of the ordinary: then `readMessage` has to say what becomes of it. Where
 * there is a message, it is the one that `readMessage` makes, to the byte (`test/property/ordinary.test.ts`).
 */
export function readOrdinary(part: Outlined, envelope: Envelope): Message | null {
  if (envelope.ip !== undefined || envelope.context !== undefined || envelope.integrations !== undefined) return null;
  const { bytes, text, fields } = part;
  places.fill(UNKNOWN);
  let unknowns = 0;
  let inPlace = '';
  let behind = '';
  for (let at = 0; at < fields.length; at += FIELD) {
    const keyStart = fields[at] as number;
    const keyEnd = fields[at + 1] as number;
    const start = fields[at + 2] as number;
    const end = fields[at + 3] as number;
    const kind = fields[at + 4] as number;
    const field = names.find(bytes, keyStart, keyEnd);
    if (field === UNKNOWN) {
      if (unknowns === MAX_UNKNOWN || !isPlainKey(bytes, keyStart, keyEnd)) return null;
      for (let n = 0; n < unknowns; n += 1) if (isSameKey(bytes, fields, unknown[n] as number, at)) return null;
      unknown[unknowns++] = at;
      if (isWord('null', text, start, end)) continue;
      if (kind !== TEXT && kind !== CANONICAL && !isBoolean(text, start, end)) return null;
    } else {
      if (places[field] !== UNKNOWN) return null;
      if (isWord('null', text, start, end)) {
        places[field] = NOTHING;
        continue;
      }
      places[field] = at;
      const isObject = field >= PROPERTIES && field <= INTEGRATIONS;
      if (kind !== (isObject ? CANONICAL : TEXT) && (kind !== CANONICAL || field < FIRST_SKIPPED)) return null;
      if (field >= MESSAGE_ID && field <= LAST_ID) {
        const size = end - start - 2;
        if (size === 0 || size > MAX_ID_BYTES || bytes[start + 1] === SPACE) return null;
      }
      if (field <= MESSAGE_ID || field >= CONTEXT) continue;
    }
    const piece = pieceOf(part, at);
    if (kind === CANONICAL && end - start > 2) behind += `,${piece}`;
    else inPlace += `,${piece}`;
  }
  return assembled(part, envelope, inPlace, behind);
}

/** Said to be null. */
const NOTHING = -2;

function assembled(part: Outlined, envelope: Envelope, inPlace: string, behind: string): Message | null {
  const { fields, text } = part;
  const type = envelope.type === undefined ? typeOf(part) : TYPES.indexOf(envelope.type as (typeof TYPES)[number]);
  if (type === UNKNOWN || isIncomplete(part, type)) return null;
  const own = textAt(part, MESSAGE_ID, true);
  if (own !== null && own.length > MAX_MESSAGE_ID) return null;
  const original = textAt(part, TIMESTAMP) ?? textAt(part, ORIGINAL_TIMESTAMP);
  const given = original === null ? null : isoInstant(original);
  const ownSentAt = textAt(part, SENT_AT);
  const sent = ownSentAt === null ? (envelope.sentAt ?? null) : isoInstant(ownSentAt);
  if ((original !== null && given === null) || (ownSentAt !== null && sent === null)) return null;
  if (sent !== null && typeof sent !== 'number') return null;
  const messageId = own ?? envelope.newId();
  const { receivedAt } = envelope;
  const timestamp = given === null ? receivedAt : correctedTime(receivedAt, given, sent);
  let body = `${STARTS[type]}${own === null ? `"messageId":${JSON.stringify(messageId)}` : pieceOf(part, places[MESSAGE_ID] as number)}${inPlace}`;
  const details = DETAILS[type] as number;
  if (details !== UNKNOWN && (places[details] as number) < 0) body += `,"${NAMES[details]}":{}`;
  const integrations = places[INTEGRATIONS] as number;
  if (integrations >= 0) body += `,${pieceOf(part, integrations)}`;
  body += `,"timestamp":"${isoTime(timestamp)}"`;
  if (original !== null && given !== timestamp) body += `,"originalTimestamp":"${original}"`;
  body += `,"receivedAt":"${isoTime(receivedAt)}"`;
  const context = places[CONTEXT] as number;
  const hasContext = context >= 0 && sizeAt(fields, context) > 2;
  body += hasContext ? `${behind},${pieceOf(part, context)}}` : `,"context":{}${behind}}`;
  return {
    type: TYPES[type] as MessageType,
    messageId,
    userId: textAt(part, USER_ID, true),
    event: type === TRACK ? (textAt(part, EVENT) as string) : undefined,
    integrations:
      integrations < 0 || sizeAt(fields, integrations) === 2 ? null : (valueAt(text, fields, integrations) as never),
    body,
  };
}

function typeOf({ bytes, fields }: Outlined): number {
  const at = places[TYPE] as number;
  return at < 0 ? UNKNOWN : types.find(bytes, (fields[at + 2] as number) + 1, (fields[at + 3] as number) - 1);
}

/** Whether something is missing, or has to be looked at closely. */
function isIncomplete(part: Outlined, type: number): boolean {
  const { text, fields } = part;
  const context = places[CONTEXT] as number;
  if (context >= 0 && pieceOf(part, context).includes(MARK_TEXT)) return true;
  if ((places[USER_ID] as number) < 0 && (places[ANONYMOUS_ID] as number) < 0) return true;
  const details = places[DETAILS[type] as number] as number;
  if (type === TRACK) return (places[EVENT] as number) < 0 || sizeAt(fields, places[EVENT] as number) === 2;
  if (type === GROUP) return (places[GROUP_ID] as number) < 0;
  // Some libraries have the traits in the context.
  if (type === IDENTIFY) return details < 0;
  if (type !== PAGE || details < 0 || sizeAt(fields, details) === 2) return false;
  const properties = valueAt(text, fields, details);
  return PAGE_STRINGS.some((key) => properties[key] !== undefined && typeof properties[key] !== 'string');
}

const sizeAt = (fields: readonly number[], at: number) => (fields[at + 3] as number) - (fields[at + 2] as number);

function valueAt(text: string, fields: readonly number[], at: number): Record<string, unknown> {
  return JSON.parse(text.slice(fields[at + 2], fields[at + 3])) as Record<string, unknown>;
}

/**
 * The text between the quotes; null when there is none.
 *
 * @param isKept - for longer than the request: what is cut from the whole keeps all of it in memory
 */
function textAt({ bytes, text, fields }: Outlined, field: number, isKept = false): string | null {
  const at = places[field] as number;
  if (at < 0) return null;
  const start = (fields[at + 2] as number) + 1;
  const end = (fields[at + 3] as number) - 1;
  return isKept ? bytes.toString('latin1', start, end) : text.slice(start, end);
}

/** A field as JSON.stringify writes it. */
function pieceOf({ text, fields }: Outlined, at: number): string {
  const [keyStart, keyEnd, start, end] = [fields[at], fields[at + 1], fields[at + 2], fields[at + 3]] as [
    number,
    number,
    number,
    number,
  ];
  if (start === keyEnd + 2) return text.slice(keyStart - 1, end);
  return `${text.slice(keyStart - 1, keyEnd + 1)}:${text.slice(start, end)}`;
}

function isBoolean(text: string, start: number, end: number): boolean {
  return isWord('true', text, start, end) || isWord('false', text, start, end);
}

function isWord(word: string, text: string, start: number, end: number): boolean {
  return end - start === word.length && text.startsWith(word, start);
}

function isPlainKey(bytes: Buffer, start: number, end: number): boolean {
  // Keys that are numbers change their places, and the other one is a trap.
  if ((bytes[start] as number) >= ZERO && (bytes[start] as number) <= NINE) return false;
  for (let at = start; at < end; at += 1) if (PLAIN[bytes[at] as number] !== 1) return false;
  return end - start !== 9 || bytes.toString('latin1', start, end) !== '__proto__';
}

function isSameKey(bytes: Buffer, fields: readonly number[], one: number, other: number): boolean {
  const start = fields[one] as number;
  const otherStart = fields[other] as number;
  const length = (fields[one + 1] as number) - start;
  if ((fields[other + 1] as number) - otherStart !== length) return false;
  for (let index = 0; index < length; index += 1) if (bytes[start + index] !== bytes[otherStart + index]) return false;
  return true;
}
