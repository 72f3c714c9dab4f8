import { type Secret, sign } from '../signature.ts';

type Guess = [hint: string, matches: (body: Buffer, header: string, secret: string) => boolean];

const restringified = (body: Buffer) => JSON.stringify(JSON.parse(body.toString('utf8')));

const guesses: Guess[] = [
  [
    'the secret has white space around it',
    (body, header, secret) => secret !== secret.trim() && sign(body, secret.trim()) === header,
  ],
  ['the secret lacks its final newline', (body, header, secret) => sign(body, `${secret}\n`) === header],
  [
    'the body has white space around it that was not signed',
    (body, header, secret) => sign(body.toString('utf8').trim(), secret) === header,
  ],
  [
    'the body was parsed and stringified again before it was signed',
    (body, header, secret) => sign(restringified(body), secret) === header,
  ],
];

const malformed: [hint: string, form: RegExp][] = [
  ['the header has uppercase digits', /^(?=.*[A-F])[0-9a-fA-F]{40}$/],
  ['the header has the prefix sha1=', /^sha1=/],
  ['the header looks like HMAC-SHA256', /^(sha256=)?[0-9a-f]{64}$/],
  ['the header looks like base64', /^[A-Za-z0-9+/]{27}=$/],
  ['the header was sent twice', /,/],
];

function fits(guess: Guess, body: Buffer, header: string, secret: string): boolean {
  try {
    return guess[1](body, header, secret);
  } catch {
    return false;
  }
}

/** The usual mistake that explains why a signature does not fit, if one does. For the log only. */
export function mistake(
  given: Uint8Array | undefined,
  header: string | undefined,
  secrets: readonly Secret[],
): string | undefined {
  if (header === undefined) return undefined;
  const form = malformed.find(([, pattern]) => pattern.test(header));
  if (form !== undefined || given === undefined) return form?.[0];
  const body = Buffer.from(given.buffer, given.byteOffset, given.byteLength);
  const plain = secrets.filter((secret) => typeof secret === 'string');
  return guesses.find((guess) => plain.some((secret) => fits(guess, body, header, secret)))?.[0];
}
