import { hash } from 'node:crypto';
import type { NewMessage } from './port.ts';

/**
 * Key of a message id: a 128-bit hash of source and id, in hex. Clients like to put user ids into message ids, and
 * remembered keys outlive a deletion.
 */
export function seenKey({ source, messageId, type, conflict }: Keyed): string {
  return hash('sha1', seenText(source, seenId(messageId, conflict, type === 'delete'))).slice(0, 32);
}

type Keyed = Pick<NewMessage, 'source' | 'messageId' | 'type' | 'conflict'>;

/**
 * The id to remember. Rollcall creates the ids of changes and notices, and marks them with a NUL, which clients' ids
 * cannot have. So a client cannot claim such an id before its message arrives, to have that taken for a duplicate.
 */
export const seenId = (messageId: string, conflict: string | null, isNotice: boolean) =>
  conflict !== null || isNotice ? `\0${messageId}` : messageId;

/** Input of the hash. */
export const seenText = (source: string, messageId: string) => `${source}\0${messageId}`;
