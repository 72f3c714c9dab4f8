import { systemClock } from './clock.ts';
import { createDeadlines, DEADLINE } from './core/deadlines.ts';
import { checkOptionNames } from './core/option-names.ts';
import type { Reply } from './core/reply.ts';
import type { Log, VerifyOptions } from './options.ts';
import type { BodyFault, Message, UnknownMessage } from './parse/messages.ts';
import { isObject } from './parse/objects.ts';
import { parseBody } from './parse/parse.ts';
import { check, fromRequest, logOf } from './receive.ts';
import { nodeSignatures } from './verify/node-signatures.ts';
import { type SenderKey, Verifier } from './verify/verifier.ts';

/** One message of a request, or the reason that it is not one. */
export type ParsedMessage =
  | { ok: true; key: string | undefined; message: Message; known: true }
  /** A message of a kind that this version of the kit does not know. */
  | { ok: true; key: string | undefined; message: UnknownMessage; known: false }
  | { ok: false; key: string | undefined; reason: BodyFault; detail: string };

/** A verified request with its messages: one, or those of a batch in order. */
export interface VerifiedRequest {
  ok: true;
  messages: ParsedMessage[];
  /** True for a batch. Its answer names the messages that were not handled. */
  isBatch: boolean;
  /** A name for the secret that matched, and its index. */
  sender: string;
  secret: number | undefined;
  /**
   * The keys that copies of the request would have without some of its signatures: remember those too. In a batch only
   * their `sender` counts, as each message has a key of its own.
   */
  others: readonly SenderKey[];
  rawBody: Buffer;
}

/** A request that failed verification, with the answer to give. */
export interface RefusedRequest {
  ok: false;
  /** The code of `response`. */
  code: string;
  response: Response;
}

/**
 * Verifies and parses requests, and leaves everything else to you: deduplication, order and answers.
 *
 * @throws TypeError when the secret is missing or empty
 */
export function createVerifyAndParse(
  options: VerifyOptions & { log?: Log },
): (request: Request) => Promise<VerifiedRequest | RefusedRequest> {
  if (!isObject(options)) throw new TypeError('give the options: { secret }');
  checkOptionNames(options);
  const { deadline = DEADLINE, clock = systemClock } = options;
  const log = logOf(options);
  const verifier = new Verifier(options, nodeSignatures);
  const reads = createDeadlines(clock);
  const core = {
    verifier,
    reading: (since: number, cut: () => void) => reads.add(since + deadline, cut),
    isClosing: () => false,
    report: (error: unknown) => log.error({ err: error }, 'webhook failed'),
  };
  return async (request) => {
    const incoming = fromRequest(request);
    const checked = await check(core, incoming, clock.now(), log);
    if (!checked.ok) return refused(checked.reply);
    const { rawBody, key, others = [], sender, secret } = checked;
    const parsed = parseBody(rawBody);
    const fields = { ok: true, sender, secret, others, rawBody } as const;
    if (!('batch' in parsed)) return { ...fields, messages: [{ ...parsed, key }], isBatch: false };
    const { batch } = parsed;
    const tooOld = verifier.age(batch.sentAt, incoming, log);
    if (tooOld !== undefined) return refused(tooOld);
    const messages = batch.keys.map((key, index): ParsedMessage => ({ ...batch.message(index), key }));
    return { ...fields, messages, isBatch: true };
  };
}

function refused({ status, headers, body, code = 'error' }: Reply): RefusedRequest {
  return { ok: false, code, response: new Response(body, { status, headers }) };
}
