/** Kinds of concerns; those that stop deliveries come first. Alert rules have these names, too. */
export const CONCERNS = [
  'endpointDead',
  'endpointRefusing',
  'endpointPaused',
  'deadLetters',
  'queueFull',
  'backlogOld',
  'sourceDiscards',
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
  /** The thing it is about. There is only one concern of the same kind and subject. */
  readonly subject: string;
  readonly destination?: string;
  readonly audience?: string;
  readonly source?: string;
  readonly run?: string;
  /** ISO 8601; null where nobody knows. */
  readonly since: string | null;
  readonly message: string;
  /** Of an unusual size: between which sizes it would be a usual one. */
  readonly usual?: { readonly low: number; readonly high: number };
}
