/** The seven kinds of message, as spelt in the `type` field. Their positions are codes in the service's store. */
export const kinds = ['identify', 'track', 'page', 'screen', 'group', 'alias', 'delete'] as const;

export type Kind = (typeof kinds)[number];

/** Page properties that are text. */
export const pageKeys = ['path', 'referrer', 'title', 'url'] as const;
