import { systemClock, within } from './clock.ts';
import { mistake } from './hints.ts';
import type { Log, ReceiverClock, RequestHead, SecretOption, VerifyOptions } from './options.ts';
import { encoded, type Reply, refusal, secretUnavailable, tooLarge, unsupportedType } from './reply.ts';
import { headerFault, type Secret, type SignatureFault, signingKey, verify } from './signature.ts';

/** A request that may be trusted, as far as the options ask for it. */
export interface Trusted {
  ok: true;
  /** The secret that matched, and its place in the list. */
  sender: Secret | undefined;
  secret: number | undefined;
  key: string | undefined;
}

export type VerifyResult = Trusted | { ok: false; reply: Reply };

/** Told when the secret could not be found out. */
export type SecretFailed = (error: unknown, request: RequestHead, log: Log) => void;

const logFailure: SecretFailed = (err, { url }, log) =>
  log.error({ err, url }, 'webhook not verified: its secret could not be read');

/** Checks requests in two steps: the head before a byte of the body is read, then the bytes. */
export interface Verifier {
  bodyLimit: number;
  head(request: RequestHead, log: Log): Reply | undefined;
  body(request: RequestHead, body: Buffer, log: Log): VerifyResult | Promise<VerifyResult>;
}

const messages: Record<SignatureFault, string> = {
  signature_missing: 'the header X-Signature is missing',
  signature_malformed: 'the header X-Signature is not 40 lowercase hexadecimal digits',
  signature_mismatch: 'X-Signature does not fit the body and the shared secret',
};
const refusals = Object.fromEntries(
  Object.entries(messages).map(([reason, message]) => [reason, refusal(401, reason, message)]),
) as Record<SignatureFault, Reply>;

const toList = (secrets: Secret | readonly Secret[]): readonly Secret[] =>
  Array.isArray(secrets) ? secrets : [secrets as Secret];

function checkOption(secret: SecretOption | false): void {
  if (secret === undefined || secret === null) throw new TypeError('give the shared secret, or `secret: false`');
  if (Array.isArray(secret) && secret.length === 0) throw new TypeError('give at least one shared secret');
}

const jsonType = /^\s*application\/json\s*(?:;|$)/i;

/** What the head alone gives away: coding, type and size. */
function headReply(request: RequestHead, bodyLimit: number): Reply | undefined {
  const encoding = request.header('content-encoding');
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') return encoded;
  const type = request.header('content-type');
  if (type !== undefined && !jsonType.test(type)) return unsupportedType;
  return Number(request.header('content-length') ?? 0) > bodyLimit ? tooLarge : undefined;
}

/** Bytes of a body that is looked at for mistakes at most: each guess reads all of it, and anyone may send it. */
const GUESS_LIMIT = 16 * 1024;
/** Milliseconds between two guesses. */
const GUESS_INTERVAL = 1_000;

function boundedGuess(clock: ReceiverClock): typeof mistake {
  let last = Number.NEGATIVE_INFINITY;
  return (body, header, secrets) => {
    if (body === undefined) return mistake(body, header, secrets);
    const now = clock.now();
    if (body.length > GUESS_LIMIT || Math.abs(now - last) < GUESS_INTERVAL) return undefined;
    last = now;
    return mistake(body, header, secrets);
  };
}

/** @throws TypeError when the secret is missing or empty. */
export function createVerifier(options: VerifyOptions, secretFailed = logFailure): Verifier {
  const { secret, bodyLimit = 1024 * 1024, hints = process.env['NODE_ENV'] !== 'production' } = options;
  const { deadline = 4500, clock = systemClock } = options;
  checkOption(secret);
  const guess = hints ? boundedGuess(clock) : () => undefined;
  const lookUp = typeof secret === 'function' ? secret : undefined;
  const raw = secret === false || typeof secret === 'function' ? [] : toList(secret);
  const keys = raw.map(signingKey);

  function refuse(reason: SignatureFault, request: RequestHead, log: Log, hint?: string): Reply {
    log.warn({ reason, url: request.url, ...(hint && { hint }) }, 'webhook refused: its signature was not verified');
    return refusals[reason];
  }

  function compare(
    request: RequestHead,
    body: Buffer,
    log: Log,
    secrets: readonly Secret[],
    plain = secrets,
  ): VerifyResult {
    const signature = request.header('x-signature');
    const result = verify(body, signature, secrets);
    if (result.ok) return { ok: true, sender: secrets[result.secret], secret: result.secret, key: signature };
    return { ok: false, reply: refuse(result.reason, request, log, guess(body, signature, plain)) };
  }

  async function compareLater(request: RequestHead, body: Buffer, log: Log): Promise<VerifyResult> {
    try {
      const work = Promise.resolve((lookUp as NonNullable<typeof lookUp>)(request));
      const found = await within(clock, deadline, work, () => {
        throw new Error('the secret was not found in time');
      });
      return compare(request, body, log, found === undefined ? [] : toList(found));
    } catch (error) {
      secretFailed(error, request, log);
      return { ok: false, reply: secretUnavailable };
    }
  }

  return {
    bodyLimit,
    head(request, log) {
      const signature = request.header('x-signature');
      const reason = secret === false ? undefined : headerFault(signature);
      if (reason !== undefined) return refuse(reason, request, log, guess(undefined, signature, raw));
      return headReply(request, bodyLimit);
    },
    body(request, body, log) {
      if (body.length > 0 && request.header('content-type') === undefined) return { ok: false, reply: unsupportedType };
      if (secret === false)
        return { ok: true, sender: undefined, secret: undefined, key: request.header('idempotency-key') };
      return lookUp === undefined ? compare(request, body, log, keys, raw) : compareLater(request, body, log);
    },
  };
}
