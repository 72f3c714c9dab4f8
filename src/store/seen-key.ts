import { hash } from 'node:crypto';
import type { NewMessage } from './port.ts';

/**
 * The key of a message id: 128 bits, in hexadecimal digits, of a hash over source and id. Clients like to put
 * user ids into their message ids, and what is remembered outlives a deletion.
 */
export function seenKey({ source, messageId }: Pick<NewMessage, 'source' | 'messageId'>): string {
  return hash('sha1', seenText(source, messageId)).slice(0, 32);
}

/** The text that the hash is made of. */
export const seenText = (source: string, messageId: string) => `${source}\0${messageId}`;
