import { createHmac } from 'node:crypto';

/** Stands for a user of whom nothing else may be kept. @param scope - a source, or empty for every source */
export function userHash(key: string, scope: string, user: string): Buffer {
  return createHmac('sha256', key).update(`${scope}\0${user}`).digest();
}
