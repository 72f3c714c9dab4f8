import { type Awaitable, after, isThenable } from './after.ts';
import { systemClock, within } from './clock.ts';
import { headerFault, type SignatureFault, type StandardFault, standardClaim, standardHeaders } from './headers.ts';
import type { Log, ReceiverClock, RequestHead, VerifyOptions } from './options.ts';
import { encoded, type Reply, refusal, secretUnavailable, tooLarge, unsupportedType } from './reply.ts';
import type { Secret } from './signature.ts';
import type { Prepared, Signatures } from './signatures.ts';

/** A request that may be trusted, as far as the options ask for it. */
export interface Trusted {
  ok: true;
  /** Names whoever knows the secret that matched; empty where no secret is set. */
  sender: string;
  /** The place of the secret that matched. */
  secret: number | undefined;
  key: string | undefined;
}

export type VerifyResult = Trusted | { ok: false; reply: Reply };

/** Called when the secret could not be found out. */
export type SecretFailed = (error: unknown, request: RequestHead, log: Log) => void;

const logFailure: SecretFailed = (err, { url }, log) =>
  log.error({ err, url }, 'webhook not verified: its secret could not be read');

/** Checks requests in two steps: the head before a byte of the body is read, then the bytes. */
export interface Verifier {
  bodyLimit: number;
  head(request: RequestHead, log: Log): Reply | undefined;
  body(request: RequestHead, body: Uint8Array, log: Log): Awaitable<VerifyResult>;
  /** The answer to what was signed at this time, if it is too old, or from too far in the future, for `maxAge`. */
  age(at: number): Reply | undefined;
}

type Fault = SignatureFault | StandardFault;

const refusals: ReadonlyMap<Fault, Reply> = new Map(
  Object.entries({
    signature_missing: 'the header X-Signature is missing',
    signature_malformed: 'the header X-Signature is not 40 lowercase hexadecimal digits',
    signature_mismatch: 'X-Signature does not fit the body and the shared secret',
    webhook_headers_missing: 'webhook-id, webhook-timestamp or webhook-signature is missing',
    webhook_headers_malformed: 'webhook-id, webhook-timestamp or webhook-signature is malformed',
    webhook_signature_mismatch: 'webhook-signature does not fit id, timestamp, body and the shared secret',
    webhook_too_old: 'it was signed too long ago, or in the future, by the clock of this receiver',
  } satisfies Record<Fault, string>).map(([reason, message]) => [reason as Fault, refusal(401, reason, message)]),
);

const toList = (secrets: Secret | readonly Secret[]): readonly Secret[] =>
  Array.isArray(secrets) ? secrets : [secrets as Secret];

function checkOptions({ secret, signing = 'x-signature', maxAge }: VerifyOptions): void {
  if (secret === undefined || secret === null) throw new TypeError('give the shared secret, or `secret: false`');
  if (Array.isArray(secret) && secret.length === 0) throw new TypeError('give at least one shared secret');
  if (!['x-signature', 'standard', 'both'].includes(signing)) {
    throw new TypeError("signing is 'x-signature', 'standard' or 'both'");
  }
  if (maxAge === undefined) return;
  if (!(maxAge > 0)) throw new TypeError('maxAge is a number of milliseconds above 0');
  if (signing === 'x-signature' || secret === false) {
    throw new TypeError("maxAge needs signing: 'standard': X-Signature does not cover the time of the request");
  }
}

const jsonType = /^\s*application\/json\s*(?:;|$)/i;

/** Refuses for reasons that the head alone shows: coding, type and size. */
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

type Guess = NonNullable<Signatures['mistake']>;

function boundedGuess(mistake: Guess, clock: ReceiverClock): Guess {
  let last = Number.NEGATIVE_INFINITY;
  return (body, header, secrets) => {
    if (body === undefined) return mistake(body, header, secrets);
    const now = clock.now();
    if (body.length > GUESS_LIMIT || Math.abs(now - last) < GUESS_INTERVAL) return undefined;
    last = now;
    return mistake(body, header, secrets);
  };
}

/** Secrets as they are configured, and prepared. */
interface Known {
  readonly plain: readonly Secret[];
  readonly prepared: Prepared;
  /** By the place of their secret, once they have been heard of. */
  readonly senders: string[];
}

/** Whether mistakes are to be named; runtimes without a process are in production. */
const isDevelopment = () => globalThis.process?.env?.['NODE_ENV'] !== 'production';

/** @throws TypeError when the secret is missing or empty, or options do not go together. */
export function createVerifier(
  options: VerifyOptions,
  signatures: Signatures,
  secretFailed: SecretFailed = logFailure,
): Verifier {
  checkOptions(options);
  const { secret, bodyLimit = 1024 * 1024, hints = isDevelopment() } = options;
  const { deadline = 4500, clock = systemClock, signing = 'x-signature', maxAge } = options;
  const guess = hints && signatures.mistake ? boundedGuess(signatures.mistake, clock) : () => undefined;
  const lookUp = typeof secret === 'function' ? secret : undefined;
  const prepare = (plain: readonly Secret[]): Known => ({ plain, prepared: signatures.prepare(plain), senders: [] });
  const known = prepare(secret === false || typeof secret === 'function' ? [] : toList(secret));

  function refuse(reason: Fault, request: RequestHead, log: Log, hint?: string): Reply {
    log.warn({ reason, url: request.url, ...(hint && { hint }) }, 'webhook refused: its signature was not verified');
    return refusals.get(reason) as Reply;
  }

  /** While a sender moves over, whatever it has signed by the standard is judged by the standard. */
  function isStandard(request: RequestHead): boolean {
    if (signing === 'both') return request.header('webhook-signature') !== undefined || maxAge !== undefined;
    return signing === 'standard';
  }

  function age(at: number): Reply | undefined {
    if (maxAge === undefined || Math.abs(clock.now() - at) <= maxAge) return undefined;
    return refusals.get('webhook_too_old');
  }

  function compareStandard(request: RequestHead, body: Uint8Array, log: Log, known: Known): Awaitable<VerifyResult> {
    return after(
      known.prepared.verifyStandard(
        body,
        standardHeaders((name) => request.header(name)),
      ),
      (result) => {
        if (!result.ok) return { ok: false, reply: refuse(result.reason, request, log) };
        if (age(result.at) !== undefined) return { ok: false, reply: refuse('webhook_too_old', request, log) };
        // The signature changes with each attempt, the id does not.
        return trusted(known, result.secret, result.id);
      },
    );
  }

  function compare(request: RequestHead, body: Uint8Array, log: Log, known: Known): Awaitable<VerifyResult> {
    if (isStandard(request)) return compareStandard(request, body, log, known);
    const signature = request.header('x-signature');
    if (signature === undefined) return { ok: false, reply: refuse('signature_missing', request, log) };
    const result = known.prepared.verify(body, signature);
    // Without a closure, where there is no need of one: this is once per request.
    if (!isThenable(result) && result.ok) return trusted(known, result.secret, signature);
    return after(result, (given) => {
      if (given.ok) return trusted(known, given.secret, signature);
      return { ok: false, reply: refuse(given.reason, request, log, guess(body, signature, known.plain)) };
    });
  }

  async function compareLater(request: RequestHead, body: Uint8Array, log: Log): Promise<VerifyResult> {
    try {
      // Apart from its object, as a function that takes its argument to pieces uses it.
      const head = { url: request.url, header: (name: string) => request.header(name) };
      const work = Promise.resolve((lookUp as NonNullable<typeof lookUp>)(head));
      const found = await within(clock, deadline, work, () => {
        throw new Error('the secret was not found in time');
      });
      return await compare(request, body, log, prepare(found === undefined ? [] : toList(found)));
    } catch (error) {
      secretFailed(error, request, log);
      return { ok: false, reply: secretUnavailable };
    }
  }

  function fault(request: RequestHead): Fault | undefined {
    if (secret === false) return undefined;
    if (!isStandard(request)) return headerFault(request.header('x-signature'));
    const claim = standardClaim(standardHeaders((name) => request.header(name)));
    return typeof claim === 'string' ? claim : undefined;
  }

  return {
    bodyLimit,
    age,
    head(request, log) {
      const reason = fault(request);
      if (reason === undefined) return headReply(request, bodyLimit);
      const hint = isStandard(request) ? undefined : guess(undefined, request.header('x-signature'), known.plain);
      return refuse(reason, request, log, hint);
    },
    body(request, body, log) {
      if (body.length > 0 && request.header('content-type') === undefined) return { ok: false, reply: unsupportedType };
      if (secret === false) return { ok: true, sender: '', secret: undefined, key: request.header('idempotency-key') };
      return lookUp === undefined ? compare(request, body, log, known) : compareLater(request, body, log);
    },
  };
}

function trusted({ prepared, senders }: Known, secret: number, key: string): Awaitable<Trusted> {
  const known = senders[secret];
  if (known !== undefined) return { ok: true, sender: known, secret, key };
  return after(prepared.sender(secret), (sender) => {
    senders[secret] = sender;
    return { ok: true, sender, secret, key };
  });
}
