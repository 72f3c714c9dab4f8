import { createHmac } from 'node:crypto';
import { sign } from '../../receivers/signature.ts';
import { signStandard } from '../../receivers/verify/standard.ts';
import type { Destination } from '../destination.ts';

/** Headers that only a receiver with a certain mistake accepts, and what to change there. */
interface Probe {
  readonly advice: string;
  readonly headers: Readonly<Record<string, string>>;
}

interface SignedBody {
  readonly body: Buffer;
  readonly secrets: readonly string[];
  readonly signing: NonNullable<Destination['signing']>;
  /** For Standard Webhooks: the id of the request, and its time in milliseconds since 1970. */
  readonly id: string;
  readonly at: number;
}

export const SIGNATURE_HEADERS = ['x-signature', 'webhook-id', 'webhook-timestamp', 'webhook-signature'];

const REWRITTEN = 'It verifies the body after parsing and writing it again: verify the bytes as they arrived';

/**
 * The mistake of a receiver that refuses a right signature, found by signing the same request as the usual mistakes would.
 *
 * @param accepts - posts the body with these headers in place of its signatures
 */
export async function signatureMistake(
  request: SignedBody,
  accepts: (headers: Readonly<Record<string, string>>) => Promise<boolean>,
): Promise<string | null> {
  const found = await Promise.all(
    probesOf(request).map(async (probe) => ((await accepts(probe.headers)) ? probe : null)),
  );
  return found.find((probe) => probe !== null)?.advice ?? null;
}

function probesOf({ body, secrets, signing, id, at }: SignedBody): Probe[] {
  const [secret, ...others] = secrets;
  if (secret === undefined) return [];
  const own = (advice: string, signature: string): Probe => ({ advice, headers: { 'x-signature': signature } });
  const standard = (advice: string, given: string | Buffer, key = secret): Probe => ({
    advice,
    headers: { ...signStandard(given, key, { id, at }) },
  });
  const hmac = (algorithm: string, encoding: 'hex' | 'base64') =>
    createHmac(algorithm, secret).update(body).digest(encoding);
  const probes: Probe[] = [];
  if (signing !== 'standard') {
    probes.push(
      own('It expects uppercase digits: the digits of X-Signature are lowercase', sign(body, secret).toUpperCase()),
      own('It expects `sha1=` before the digits: X-Signature has no prefix', `sha1=${sign(body, secret)}`),
      own('It expects base64: X-Signature is hexadecimal', hmac('sha1', 'base64')),
      own('It computes HMAC-SHA256: X-Signature is HMAC-SHA1', hmac('sha256', 'hex')),
      own('Its secret ends with a newline: remove it there', sign(body, `${secret}\n`)),
      ...rewritten(body).map((text) => own(REWRITTEN, sign(text, secret))),
      ...others.map((other) => own('It knows a former secret only: add the new one there', sign(body, other))),
    );
  }
  if (signing !== 'x-signature') {
    probes.push(
      standard(
        'It takes the secret for base64: give it `whsec_` and the base64 of sharedSecret',
        body,
        `whsec_${secret.replace(/^whsec_/, '')}`,
      ),
      standard('Its secret ends with a newline: remove it there', body, `${secret}\n`),
      ...rewritten(body).map((text) => standard(REWRITTEN, text)),
    );
  }
  const trimmed = secret.trim();
  if (trimmed === secret || trimmed === '') return probes;
  const spaced = 'sharedSecret has white space around it: remove it from the configuration';
  return [...probes, own(spaced, sign(body, trimmed)), standard(spaced, body, trimmed)];
}

/** The body as other languages write it: Python, PHP, Go, and with indentation. */
function rewritten(body: Buffer): string[] {
  const text = body.toString();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return [];
  }
  const escaped = (json: string) =>
    json.replaceAll(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  const inGo = JSON.stringify(sorted(value)).replaceAll(
    /[<>&]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  const forms = [
    escaped(spaced(value)),
    spaced(value),
    escaped(JSON.stringify(value)).replaceAll('/', '\\/'),
    inGo,
    JSON.stringify(value, null, 2),
  ];
  return forms.filter((form) => form !== text);
}

/** With a space after each comma and colon. */
function spaced(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spaced).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([key, each]) => `${JSON.stringify(key)}: ${spaced(each)}`)
    .join(', ')}}`;
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, each]) => [key, sorted(each)]),
  );
}
