/** The seven kinds. Their places are codes of the store's disk format. */
export const MESSAGE_TYPES = ['identify', 'track', 'page', 'screen', 'group', 'alias', 'delete'] as const;
export type MessageType = (typeof MESSAGE_TYPES)[number];
