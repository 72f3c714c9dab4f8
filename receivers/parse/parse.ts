import { textOf } from './bytes.ts';
import { type Batch, isEnvelope, parseEnvelope, splitEnvelope } from './envelope.ts';
import { fault, type Parsed, parseJson, parseValue } from './messages.ts';

/** The body of a request: one message, or a batch. */
export type ParsedBody = Parsed | { ok: true; batch: Batch };

/** Parses a request body into a message or a batch. Never throws. */
export function parseBody(bytes: Buffer): ParsedBody {
  if (bytes.length === 0) return fault('empty_body', 'the body is empty');
  const batch = splitEnvelope(bytes);
  if (batch !== undefined) return { ok: true, batch };
  let value: unknown;
  try {
    value = parseJson(textOf(bytes));
  } catch (error) {
    return fault('invalid_json', String(error));
  }
  return isEnvelope(value) ? parseEnvelope(value, bytes) : parseValue(value);
}

/** Parses a request body into a message. Never throws. */
export function parseMessage(bytes: Buffer): Parsed {
  const parsed = parseBody(bytes);
  return 'batch' in parsed ? fault('invalid_body', 'expected one message, got a batch') : parsed;
}
