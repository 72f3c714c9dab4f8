/** The seven kinds. Their places are codes of the store's disk format. */
export const MESSAGE_TYPES = ['identify', 'track', 'page', 'screen', 'group', 'alias', 'delete'] as const;
export type MessageType = (typeof MESSAGE_TYPES)[number];

/** Of a user's or a group's id, in UTF-8: an index of Postgres has room for it with a key and a destination's name. */
export const MAX_ID_BYTES = 1_000;
