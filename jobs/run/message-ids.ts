import { hash } from 'node:crypto';

/** 132 bits. */
const HASH_LENGTH = 22;

/**
 * Makes the ids of a run's messages. They are the same when it is repeated. Nobody can predict them, since receivers
 * may also rely on ids that clients choose. A keyed hash stands for the user, since ids outlive a deletion.
 *
 * @param key - the store's hash key
 * @param scope - distinguishes messages of one run about the same subject
 */
export function messageIds(key: string, run: string, scope: string): (subject: string) => string {
  const prefix = `${run}:`;
  const hashPrefix = `${key}\0${run}\0${scope}\0`;
  return (subject) => prefix + hash('sha256', hashPrefix + subject, 'base64url').slice(0, HASH_LENGTH);
}
