import { type Kind, kinds } from '../receivers/kinds.ts';

/** The seven kinds of messages. Their positions are codes in the store's disk format. */
export const MESSAGE_TYPES = kinds;
export type MessageType = Kind;

export type ClientType = Exclude<MessageType, 'delete'>;
export const CLIENT_TYPES = MESSAGE_TYPES.filter((type): type is ClientType => type !== 'delete');

/** Longest id of a user or group in UTF-8: an index of Postgres has room for it with a key and a destination's name. */
export const MAX_ID_BYTES = 1_000;
