/** What may need a person, what stops deliveries first. Rules of alerts have these names, too. */
export const CONCERNS = [
  'endpointDead',
  'endpointRefusing',
  'endpointPaused',
  'deadLetters',
  'queueFull',
  'backlogOld',
  'runHeld',
  'runFailed',
  'runOverdue',
  'unusualSize',
  'audienceOrphaned',
] as const;
export type ConcernKind = (typeof CONCERNS)[number];

/** Something that needs a person, for as long as it is so. */
export interface Concern {
  readonly kind: ConcernKind;
  /** What it is about: of the same kind and subject there is only one. */
  readonly subject: string;
  readonly destination?: string;
  readonly audience?: string;
  readonly run?: string;
  /** ISO 8601; null where nobody knows. */
  readonly since: string | null;
  readonly message: string;
  /** Of an unusual size: between which sizes it would be a usual one. */
  readonly usual?: { readonly low: number; readonly high: number };
}
