import { type Kind, kinds } from '../receivers/kinds.ts';

/** The seven kinds. Their places are codes of the store's disk format. */
export const MESSAGE_TYPES = kinds;
export type MessageType = Kind;

/** The kinds that clients send. */
export type ClientType = Exclude<MessageType, 'delete'>;
export const CLIENT_TYPES = MESSAGE_TYPES.filter((type): type is ClientType => type !== 'delete');

/** Of a user's or a group's id, in UTF-8: an index of Postgres has room for it with a key and a destination's name. */
export const MAX_ID_BYTES = 1_000;
