import type { webcrypto } from 'node:crypto';
import { joined } from '../parse/bytes.ts';
import type { Secret } from '../signature.ts';
import { type StandardClaim, standardBase64 } from './headers.ts';
import { type Prepared, SENDER, SENDER_LENGTH, type Signatures } from './signatures.ts';

type Bytes = Uint8Array<ArrayBuffer>;
type CryptoKey = webcrypto.CryptoKey;

const utf8 = new TextEncoder();

async function keyOf(bytes: Bytes, hash: 'SHA-1' | 'SHA-256'): Promise<CryptoKey> {
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash }, false, ['sign', 'verify']);
}

function fromHex(text: string): Bytes {
  return Uint8Array.from(text.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
}

function fromBase64(text: string): Bytes {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** Decodes like `Buffer`, which the sender and Node's receivers use: accepts both alphabets and never fails. */
function fromAnyBase64(text: string): Bytes {
  const [digits = ''] = text.replaceAll('-', '+').replaceAll('_', '/').split('=');
  const clean = digits.replaceAll(/[^A-Za-z0-9+/]/g, '');
  return fromBase64(clean.length % 4 === 1 ? clean.slice(0, -1) : clean);
}

/** The key of a secret by the standard: its text, or the bytes that its base64 encodes. */
function standardBytes(secret: string): Bytes {
  const base64 = standardBase64(secret);
  return base64 === undefined ? utf8.encode(secret) : fromAnyBase64(base64);
}

interface Keys {
  readonly signature: CryptoKey;
  readonly standard: CryptoKey;
  readonly sender: CryptoKey;
}

async function keysOf(secret: string): Promise<Keys> {
  const text = utf8.encode(secret);
  const [signature, standard, sender] = await Promise.all([
    keyOf(text, 'SHA-1'),
    keyOf(standardBytes(secret), 'SHA-256'),
    keyOf(text, 'SHA-256'),
  ]);
  return { signature, standard, sender };
}

/** The signature of bytes, in lowercase hexadecimal. */
async function macOf(key: CryptoKey, bytes: Bytes): Promise<string> {
  const mac = new Uint8Array(await crypto.subtle.sign('HMAC', key, bytes));
  return Array.from(mac, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** WebCrypto compares in constant time. */
const isSigned = (key: CryptoKey, signature: Bytes, body: Uint8Array) =>
  crypto.subtle.verify('HMAC', key, signature, body as Bytes);

/** Cryptography by the Web standards that edge runtimes have. Secrets are text. */
export const webSignatures: Signatures = {
  prepare(secrets): Prepared {
    for (const secret of secrets) checkText(secret);
    // Made at the first request: not every runtime can await at startup.
    let keys: Promise<readonly Keys[]> | undefined;
    const allKeys = () => {
      keys ??= Promise.all(secrets.map((secret) => keysOf(secret as string)));
      return keys;
    };
    return {
      async verify(body, header): Promise<number> {
        const signature = fromHex(header);
        for (const [secret, { signature: key }] of (await allKeys()).entries()) {
          if (await isSigned(key, signature, body)) return secret;
        }
        return -1;
      },
      async verifyStandard(body, { id, timestamp, signatures }: StandardClaim): Promise<readonly number[]> {
        const head = utf8.encode(`${id}.${timestamp}.`);
        const signed = joined([head, body], head.length + body.length);
        const matched: number[] = [];
        for (const [secret, { standard: key }] of (await allKeys()).entries()) {
          if (matched.length === signatures.length) break;
          for (const signature of signatures) {
            if (!(await isSigned(key, fromBase64(signature), signed))) continue;
            matched.push(secret);
            break;
          }
        }
        return matched;
      },
      sign: async (body, secret) => macOf(((await allKeys())[secret] as Keys).signature, body as Bytes),
      async sender(secret) {
        const { sender } = (await allKeys())[secret] as Keys;
        return (await macOf(sender, utf8.encode(SENDER))).slice(0, SENDER_LENGTH);
      },
    };
  },
};

function checkText(secret: Secret): void {
  if (typeof secret !== 'string') throw new TypeError('give the shared secret as text');
  if (standardBytes(secret).length === 0) throw new TypeError('a shared secret must not be empty');
}
