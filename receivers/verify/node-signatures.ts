import { createHmac } from 'node:crypto';
import { matchingSecret, type Secret, sign, signingKey } from '../signature.ts';
import { mistake } from './hints.ts';
import { SENDER, SENDER_LENGTH, type Signatures } from './signatures.ts';
import { standardKey, verifyStandard } from './standard.ts';

/** Node's cryptography, which is synchronous. */
export const nodeSignatures: Signatures = {
  prepare(secrets) {
    const keys = secrets.map(signingKey);
    const standardKeys = secrets.map(standardKey);
    return {
      verify: (body, header) => matchingSecret(body, header, keys),
      verifyStandard: (body, claim) => verifyStandard(body, claim, standardKeys),
      sign: (body, secret) => sign(body, keys[secret] as Secret),
      sender: (secret) => senderName(keys[secret] as Secret),
    };
  },
  mistake,
};

function senderName(key: Secret): string {
  return createHmac('sha256', key).update(SENDER).digest('hex').slice(0, SENDER_LENGTH);
}
