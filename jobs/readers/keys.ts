import { createPrivateKey, type KeyObject, sign } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { RollcallError } from '../../src/kernel/errors.ts';

/** The text of a secret: as it stands, or that of the file it names. */
export async function secretText(given: string, folder: string): Promise<string> {
  if (/^\s*(-----BEGIN|\{)/.test(given)) return given;
  return readFile(resolve(folder, given), 'utf8').catch(() => {
    throw new RollcallError('engine_unreachable', `Can't read the file of a key, ${resolve(folder, given)}.`);
  });
}

/** @throws RollcallError without a word of the key */
export function privateKeyOf(pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    throw new RollcallError('engine_unreachable', 'The private key is no PEM text of a key without a passphrase.');
  }
}

/** A signed token of these claims (RFC 7519). */
export function tokenOf(key: KeyObject, claims: object): string {
  const text = [{ alg: 'RS256', typ: 'JWT' }, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.');
  return `${text}.${sign('sha256', Buffer.from(text), key).toString('base64url')}`;
}
