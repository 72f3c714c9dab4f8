/** The seven kinds of message, as the `type` field of a webhook body spells them. Their places are codes of the service's store. */
export const kinds = ['identify', 'track', 'page', 'screen', 'group', 'alias', 'delete'] as const;

/** One of the seven kinds. */
export type Kind = (typeof kinds)[number];

/** The properties of a page that are text. */
export const pageKeys = ['path', 'referrer', 'title', 'url'] as const;
