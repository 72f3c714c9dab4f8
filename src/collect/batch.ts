import { type ErrorCode, RollcallError } from '../kernel/errors.ts';
import { instant } from '../kernel/timestamp.ts';
import { isRejection, isShallow, type Message, type MessageEnvelope, readMessage } from '../message.ts';
import type { JsonBody } from './json-body.ts';
import type { CollectLimits } from './limits.ts';

interface RejectedItem {
  readonly index: number;
  readonly messageId: string | null;
  readonly code: ErrorCode;
  readonly message: string;
}

interface BatchContent {
  readonly messages: readonly Message[];
  readonly rejected: readonly RejectedItem[];
}

/** Limit for the bytes of shared fields, repeated in every message, as a multiple of the largest batch. */
const MAX_GROWTH = 4;

/**
 * Splits a batch into messages. Its `context` and `integrations` count for every message; a message's own win.
 *
 * @throws RollcallError `invalid_message`, `empty_batch`, `too_many_messages`, `context_not_object`,
 *   `integrations_not_object`, `too_large`, `too_deep`
 */
export function readBatch(body: JsonBody, envelope: MessageEnvelope, limits: CollectLimits): BatchContent {
  const batch = objectOf(body);
  const items = itemsOf(body, limits);
  const shared = { ...envelope, sentAt: sentAtOf(batch, envelope), ...sharedFields(batch, items.length, limits) };
  const messages: Message[] = [];
  const rejected: RejectedItem[] = [];
  for (const [index, item] of items.entries()) {
    const result = readMessage(item, shared, body.bytes);
    if (isRejection(result)) rejected.push({ index, messageId: messageIdOf(item), ...result });
    else messages.push(result);
  }
  return { messages, rejected };
}

/** @throws RollcallError with the code of what is wrong */
export function readCall({ rest, bytes }: JsonBody, envelope: MessageEnvelope): Message {
  const result = readMessage(rest, envelope, bytes);
  if (isRejection(result)) throw new RollcallError(result.code, result.message);
  return result;
}

function objectOf({ rest }: JsonBody): Record<string, unknown> {
  if (typeof rest !== 'object' || rest === null || Array.isArray(rest)) {
    throw new RollcallError('invalid_message', 'A batch must be a JSON object.');
  }
  if (!isShallow(rest)) {
    throw new RollcallError('too_deep', 'context or integrations of the batch is nested too deep.');
  }
  return rest as Record<string, unknown>;
}

function itemsOf({ items }: JsonBody, { batchMessages }: CollectLimits): readonly unknown[] {
  if (items === null || items.length === 0) {
    throw new RollcallError('empty_batch', 'A batch needs a list of messages named `batch`.');
  }
  if (items.length > batchMessages) {
    throw new RollcallError('too_many_messages', `A batch must not have more than ${batchMessages} messages.`);
  }
  return items;
}

function sharedFields(batch: Record<string, unknown>, count: number, { batchBytes }: CollectLimits) {
  const context = sharedField(batch, 'context');
  const integrations = sharedField(batch, 'integrations');
  if (context === null && integrations === null) return {};
  if (JSON.stringify([context, integrations]).length * count > MAX_GROWTH * batchBytes) {
    throw new RollcallError('too_large', 'context and integrations of the batch are too large for so many messages.');
  }
  return { ...(context && { context }), ...(integrations && { integrations }) };
}

/** Parsed once for all messages. */
function sentAtOf({ sentAt }: Record<string, unknown>, { onUnreadable }: MessageEnvelope): number | null {
  const sent = instant(sentAt);
  if (sent === null && sentAt !== undefined && sentAt !== null) onUnreadable?.('sentAt');
  return sent;
}

function sharedField(batch: Record<string, unknown>, name: 'context' | 'integrations') {
  const value = batch[name] ?? null;
  if (value === null || (Array.isArray(value) && value.length === 0)) return null;
  if (typeof value !== 'object' || Array.isArray(value)) {
    throw new RollcallError(`${name}_not_object`, `${name} of the batch must be an object.`);
  }
  return value as Record<string, unknown>;
}

function messageIdOf(item: unknown): string | null {
  const id = (item as { messageId?: unknown } | null)?.messageId;
  return typeof id === 'string' || typeof id === 'number' ? String(id).slice(0, 100) : null;
}
