import { AlreadyRead, isHungUp, TooSlow } from '../incoming.ts';

/** An answer of the kit, before an edge turns it into its framework's response. */
export interface Reply {
  status: number;
  headers: Record<string, string>;
  body: string;
  /** The error code of a refusal. */
  code?: string;
}

/** A message of a batch that was not handled. */
export interface ItemRejection {
  index: number;
  code: string;
  /** True if the sender should retry it. */
  retry: boolean;
}

const json = { 'content-type': 'application/json; charset=utf-8' };

const ok = (fields: Record<string, unknown>): Reply => ({
  status: 200,
  headers: json,
  body: JSON.stringify({ received: true, ...fields }),
});

/** Bytes of an answer that Rollcall reads. It ignores a longer one and sends all messages again. */
const ANSWER_LIMIT = 64 * 1024;

/**
 * The answer to a batch. Messages that are not rejected count as handled, as they would on their own.
 *
 * @param unhandled - indexes of messages without a handler; left out if the answer would be too long
 */
export function batched(rejected: readonly ItemRejection[], unhandled: readonly number[]): Reply {
  if (rejected.length + unhandled.length === 0) return handled;
  const answer = ok({ ...(rejected.length > 0 && { rejected }), ...(unhandled.length > 0 && { unhandled }) });
  return answer.body.length <= ANSWER_LIMIT ? answer : ok({ rejected: shortened(rejected) });
}

/**
 * The indexes of 4,096 rejections, the most that Rollcall sends, fit into an answer. A message without `retry` is sent
 * again, so final rejections keep theirs as far as there is room.
 */
function shortened(rejected: readonly ItemRejection[]): readonly Partial<ItemRejection>[] {
  const never = ',"retry":false'.length;
  let room = ANSWER_LIMIT - ok({ rejected: rejected.map(({ index }) => ({ index })) }).body.length;
  return rejected.map(({ index, retry }) => {
    if (retry || room < never) return { index };
    room -= never;
    return { index, retry };
  });
}

export const handled = ok({});
export const stored = ok({ stored: true });
export const duplicate = ok({ duplicate: true });
export const stale = ok({ stale: true });
export const unhandled = ok({ unhandled: true });
export const keptAway = ok({ keptAway: true });
export const quarantined = ok({ quarantined: true });

/** A refusal. `code` is for machines, `message` for people. */
export function refusal(status: number, code: string, message: string, headers: Record<string, string> = {}): Reply {
  return { status, headers: { ...json, ...headers }, body: JSON.stringify({ code, message }), code };
}

const retryLater = (code: string, message: string) => refusal(503, code, message, { 'retry-after': '1' });

export const late = retryLater('deadline', 'not done in time; send it again');
export const inProgress = retryLater('in_progress', 'the same request is being handled elsewhere');
export const closing = retryLater('closing', 'shutting down; send it again');
export const storeFailed = retryLater('store_failed', 'the store of the receiver failed; send it again');
export const secretUnavailable = retryLater('secret_unavailable', 'the secret can not be read now; send it again');
export const bodyTooSlow = refusal(408, 'body_timeout', 'the body did not arrive in time; send it again', {
  connection: 'close',
});
export const bodyAlreadyRead = refusal(500, 'body_already_read', 'the receiver is not set up correctly');
export const bodyUnreadable = refusal(400, 'body_unreadable', 'the body ended too early');
export const crashed = refusal(500, 'internal_error', 'the receiver failed; send it again');
/** The answer if a body can't be read. A fault of the host counts as our own failure, so that the sender retries. */
export function unreadable(error: unknown): Reply {
  if (error instanceof AlreadyRead) return bodyAlreadyRead;
  if (error instanceof TooSlow) return bodyTooSlow;
  return isHungUp(error) ? bodyUnreadable : crashed;
}

export const failed = refusal(500, 'handler_failed', 'the handler failed; send it again');
// Do not wait for the rest of the body.
export const tooLarge = refusal(413, 'too_large', 'the body is larger than this receiver takes', {
  connection: 'close',
});
export const unsupportedType = refusal(415, 'unsupported_media_type', 'expected content-type application/json');
export const encoded = refusal(415, 'content_encoding', 'expected a body without content-encoding');
export const methodNotAllowed = refusal(405, 'method_not_allowed', 'expected POST', { allow: 'POST' });
