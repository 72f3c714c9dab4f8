import { systemClock, within } from '../clock.ts';
import { type Awaitable, after } from '../core/after.ts';
import { DEADLINE } from '../core/deadlines.ts';
import { encoded, type Reply, refusal, secretUnavailable, tooLarge, unsupportedType } from '../core/reply.ts';
import type { Log, ReceiverClock, RequestHead, SecretOption, VerifyOptions } from '../options.ts';
import { checkNumber } from '../parse/numbers.ts';
import type { Secret } from '../signature.ts';
import { headerFault, type SignatureFault, type StandardClaim, type StandardFault, standardClaim } from './headers.ts';
import type { Prepared, Signatures } from './signatures.ts';

/** The key of a request as one of its signatures identifies it. */
export interface SenderKey {
  readonly sender: string;
  readonly key: string;
}

/** A request that passed the checks of the options. */
export interface Trusted {
  ok: true;
  /** Identifies the secret that matched; empty if no secret is set. */
  sender: string;
  /** The index of the secret that matched. */
  secret: number | undefined;
  key: string | undefined;
  /** The keys that copies of the request would have without some of its signatures. */
  others?: readonly SenderKey[] | undefined;
}

export type VerifyResult = Trusted | { ok: false; reply: Reply };

/** Called when the secret function fails. */
export type SecretFailed = (error: unknown, request: RequestHead, log: Log) => void;

const logFailure: SecretFailed = (err, { url }, log) =>
  log.error({ err, url }, 'webhook not verified: its secret could not be read');

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

type LookUp = Extract<VerifyOptions['secret'], (...given: never[]) => unknown>;

/** Undefined if a secret is. */
function toList(secrets: Exclude<SecretOption, LookUp>): readonly Secret[] | undefined {
  const list = Array.isArray(secrets) ? secrets : [secrets];
  return list.includes(undefined) ? undefined : list;
}

/** The look-up of a secret whose environment variable is not set. */
const unset = () => undefined;

/** The shortest `maxAge`: smaller ones were meant in seconds, the unit of the standard's libraries. */
const LEAST_AGE = 1_000;

function checkOptions(options: VerifyOptions): void {
  const { secret, signing = 'x-signature', maxAge, deadline, bodyLimit } = options;
  if (!('secret' in options) || secret === null) throw new TypeError('give the shared secret, or `secret: false`');
  if (Array.isArray(secret) && secret.length === 0) throw new TypeError('give at least one shared secret');
  if (!['x-signature', 'standard', 'both'].includes(signing)) {
    throw new TypeError("signing is 'x-signature', 'standard' or 'both'");
  }
  checkNumber('deadline', deadline);
  checkNumber('bodyLimit', bodyLimit);
  if (maxAge === undefined) return;
  if (!(maxAge >= LEAST_AGE)) throw new TypeError('maxAge is in milliseconds: 300_000 for five minutes');
  if (signing === 'x-signature' || secret === false) {
    throw new TypeError("maxAge needs signing: 'standard': X-Signature does not cover the time of the request");
  }
}

const jsonType = /^\s*application\/json\s*(?:;|$)/i;

/** Refuses a request for what its head shows: coding, type and size. */
function headReply(request: RequestHead, bodyLimit: number): Reply | undefined {
  const encoding = request.header('content-encoding');
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') return encoded;
  const type = request.header('content-type');
  const hasBody =
    Number(request.header('content-length') ?? 0) > 0 || request.header('transfer-encoding') !== undefined;
  if (type === undefined ? hasBody : !jsonType.test(type)) return unsupportedType;
  return Number(request.header('content-length') ?? 0) > bodyLimit ? tooLarge : undefined;
}

/** The largest body, in bytes, that is searched for mistakes: each guess reads all of it, and anyone may send it. */
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

/** Secrets as configured, and prepared. */
interface Known {
  readonly plain: readonly Secret[];
  readonly prepared: Prepared;
  /** Names of senders by the index of their secret, filled at first use. */
  readonly senders: Awaitable<string>[];
}

/** True if mistakes may be named. Runtimes without a process count as production. */
const isDevelopment = () => globalThis.process?.env?.['NODE_ENV'] !== 'production';

/** Checks requests in two steps: first the head, then the bytes of the body. */
export class Verifier {
  readonly bodyLimit: number;
  readonly #options: VerifyOptions;
  readonly #signatures: Signatures;
  readonly #secretFailed: SecretFailed;
  readonly #clock: ReceiverClock;
  readonly #guess: Guess;
  /** Secrets that do not depend on the request. */
  readonly #known: Known;
  readonly #lookUp: LookUp | undefined;

  /** @throws TypeError when the secret is missing or empty, or options contradict each other */
  constructor(options: VerifyOptions, signatures: Signatures, secretFailed: SecretFailed = logFailure) {
    checkOptions(options);
    const { secret, bodyLimit = 1024 * 1024, hints = isDevelopment(), clock = systemClock } = options;
    this.bodyLimit = bodyLimit;
    this.#options = options;
    this.#signatures = signatures;
    this.#secretFailed = secretFailed;
    this.#clock = clock;
    this.#guess = hints && signatures.mistake ? boundedGuess(signatures.mistake, clock) : () => undefined;
    const list = secret === false || typeof secret === 'function' ? [] : toList(secret);
    this.#lookUp = typeof secret === 'function' ? secret : list === undefined ? unset : undefined;
    this.#known = this.#prepare(list ?? []);
  }

  get isUnset(): boolean {
    return this.#lookUp === unset;
  }

  head(request: RequestHead, log: Log): Reply | undefined {
    const isStandard = this.#isStandard(request);
    const signature = request.header('x-signature');
    const claim = isStandard ? claimOf(request) : headerFault(signature);
    if (typeof claim !== 'string' || this.#options.secret === false) return headReply(request, this.bodyLimit);
    return refuse(claim, request, log, isStandard ? undefined : this.#guess(undefined, signature, this.#known.plain));
  }

  body(request: RequestHead, body: Uint8Array, log: Log): Awaitable<VerifyResult> {
    if (body.length > 0 && request.header('content-type') === undefined) return { ok: false, reply: unsupportedType };
    if (this.#options.secret === false) {
      return { ok: true, sender: '', secret: undefined, key: request.header('idempotency-key') };
    }
    if (this.#lookUp !== undefined) return this.#compareLater(this.#lookUp, request, body, log);
    return this.#compare(request, body, log, this.#known);
  }

  /** Refuses a request signed at this time, if that is further from now than `maxAge`. */
  age(at: number, request: Pick<RequestHead, 'url'>, log: Log): Reply | undefined {
    const { maxAge } = this.#options;
    if (maxAge === undefined) return undefined;
    const age = this.#clock.now() - at;
    if (Math.abs(age) <= maxAge) return undefined;
    return refuse('webhook_too_old', request, log, `it was signed ${age} ms ago, and maxAge is ${maxAge} ms`);
  }

  #prepare(plain: readonly Secret[]): Known {
    const isBlank = (secret: unknown) => typeof secret === 'string' && secret.trim() === '';
    if (plain.some(isBlank)) throw new TypeError('a shared secret must not be empty');
    return { plain, prepared: this.#signatures.prepare(plain), senders: [] };
  }

  /** During a sender's move, requests signed by the standard are judged by the standard. */
  #isStandard(request: RequestHead): boolean {
    const { signing = 'x-signature', maxAge } = this.#options;
    if (signing === 'both') return request.header('webhook-signature') !== undefined || maxAge !== undefined;
    return signing === 'standard';
  }

  #compare(request: RequestHead, body: Uint8Array, log: Log, known: Known): Awaitable<VerifyResult> {
    if (this.#isStandard(request)) return this.#compareStandard(request, body, log, known);
    const signature = request.header('x-signature');
    if (signature === undefined) return { ok: false, reply: refuse('signature_missing', request, log) };
    const found = known.prepared.verify(body, signature);
    // Avoids a closure on the common path, as this runs once per request.
    if (typeof found === 'number' && found !== -1) return trusted(known, found, signature);
    return after(found, (secret) => {
      if (secret !== -1) return trusted(known, secret, signature);
      const hint = this.#guess(body, signature, known.plain);
      return { ok: false, reply: refuse('signature_mismatch', request, log, hint) };
    });
  }

  #compareStandard(request: RequestHead, body: Uint8Array, log: Log, known: Known): Awaitable<VerifyResult> {
    const claim = claimOf(request);
    if (typeof claim === 'string') return { ok: false, reply: refuse(claim, request, log) };
    return after(known.prepared.verifyStandard(body, claim), (secrets) => {
      const [first] = secrets;
      if (first === undefined) return { ok: false, reply: refuse('webhook_signature_mismatch', request, log) };
      const tooOld = this.age(Number(claim.timestamp) * 1000, request, log);
      if (tooOld !== undefined) return { ok: false, reply: tooOld };
      // The signature changes with each attempt. The id does not.
      if (this.#options.signing === 'standard' && secrets.length === 1) return trusted(known, first, claim.id);
      return this.#trustedByAll(known, secrets, claim.id, body);
    });
  }

  async #trustedByAll(known: Known, secrets: readonly number[], id: string, body: Uint8Array): Promise<Trusted> {
    const others: SenderKey[] = [];
    for (const secret of secrets) {
      const sender = await senderOf(known, secret);
      if (secret !== secrets[0]) others.push({ sender, key: id });
      if (this.#options.signing === 'both') others.push({ sender, key: await known.prepared.sign(body, secret) });
    }
    return { ...(await trusted(known, secrets[0] as number, id)), others };
  }

  async #compareLater(lookUp: LookUp, request: RequestHead, body: Uint8Array, log: Log): Promise<VerifyResult> {
    try {
      // Bound, so that the secret function may destructure its argument.
      const head = { url: request.url, header: (name: string) => request.header(name) };
      const { deadline = DEADLINE } = this.#options;
      const found = await within(this.#clock, deadline, Promise.resolve(lookUp(head)), () => {
        throw new Error('the secret was not found in time');
      });
      const list = toList(found);
      if (list === undefined) {
        throw new TypeError('a shared secret is undefined: set it where the receiver runs; [] is for unknown tenants');
      }
      const known = this.#prepare(list);
      if (known.plain.length > 0) return await this.#compare(request, body, log, known);
      const reason = this.#isStandard(request) ? 'webhook_signature_mismatch' : 'signature_mismatch';
      return { ok: false, reply: refuse(reason, request, log, NO_SECRET) };
    } catch (error) {
      this.#secretFailed(error, request, log);
      return { ok: false, reply: secretUnavailable };
    }
  }
}

const claimOf = (request: RequestHead): StandardClaim | StandardFault => standardClaim((name) => request.header(name));

const NO_SECRET = 'the secret function has no secret for this request';

function refuse(reason: Fault, { url }: Pick<RequestHead, 'url'>, log: Log, hint?: string): Reply {
  log.warn({ reason, url, ...(hint && { hint }) }, 'webhook refused: its signature was not verified');
  return refusals.get(reason) as Reply;
}

function trusted(known: Known, secret: number, key: string): Awaitable<Trusted> {
  const sender = senderOf(known, secret);
  if (typeof sender === 'string') return { ok: true, sender, secret, key };
  return sender.then((name) => ({ ok: true, sender: name, secret, key }));
}

function senderOf({ prepared, senders }: Known, secret: number): Awaitable<string> {
  senders[secret] ??= prepared.sender(secret);
  return senders[secret];
}
