/** The seven kinds of message, as spelt in the `type` field. Their positions are codes in the service's store. */
export const kinds = ['identify', 'track', 'page', 'screen', 'group', 'alias', 'delete'] as const;

export type Kind = (typeof kinds)[number];

/** Page properties that are text. */
export const pageKeys = ['path', 'referrer', 'title', 'url'] as const;

/** Why a change was sent (docs/wire.md of the service). */
export const reasons = [
  'first_sync',
  'entered',
  'exited',
  'changed',
  'definition',
  'resync',
  'backfill',
  'returning',
  'withdrawn',
  'retired',
  'renamed',
] as const;
export type Reason = (typeof reasons)[number];
