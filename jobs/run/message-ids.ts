import { hash } from 'node:crypto';

/** 132 bits. */
const HASH_LENGTH = 22;

/**
 * Makes the ids of a run's messages: the same whenever it is repeated, and foreseen by nobody, as receivers may go by ids that clients
 * choose as well. A keyed hash stands for the user, since ids outlive a deletion.
 *
 * @param key - the store's
 * @param scope - tells messages apart that one run has for one subject
 */
export function messageIds(key: string, run: string, scope: string): (subject: string) => string {
  const prefix = `${run}:`;
  const hashPrefix = `${key}\0${run}\0${scope}\0`;
  return (subject) => prefix + hash('sha256', hashPrefix + subject, 'base64url').slice(0, HASH_LENGTH);
}
