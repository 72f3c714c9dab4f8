import { hash } from 'node:crypto';
import type { NewMessage } from './port.ts';

/**
 * The key of a message id: 128 bits, in hexadecimal digits, of a hash over source and id. Clients like to put
 * user ids into their message ids, and what is remembered outlives a deletion.
 */
export function seenKey({ source, messageId, type, conflict }: Keyed): string {
  return hash('sha1', seenText(source, seenId(messageId, conflict, type === 'delete'))).slice(0, 32);
}

type Keyed = Pick<NewMessage, 'source' | 'messageId' | 'type' | 'conflict'>;

/**
 * The id that is remembered. Rollcall makes those of changes and notices itself. Clients choose theirs, of which none has a NUL:
 * whoever knows an id before its message comes can't have that taken for a repetition.
 */
export const seenId = (messageId: string, conflict: string | null, isNotice: boolean) =>
  conflict !== null || isNotice ? `\0${messageId}` : messageId;

/** The text that the hash is made of. */
export const seenText = (source: string, messageId: string) => `${source}\0${messageId}`;
