import type { Reason } from '../receivers/kinds.ts';

export type ChangeReason = Reason;

/** Numbers of changes, by reason. */
export type ReasonCounts = Readonly<Partial<Record<ChangeReason, number>>>;

/** The cause of a live change: an event, time (ISO 8601), a synced audience, a computed trait, or a deletion. */
export type ChangeCause =
  | { readonly messageId: string }
  | { readonly time: string }
  | { readonly audience: string }
  | { readonly computed: string }
  | { readonly deletion: true };

/** The explanation of a change in `context.personas`. */
export interface ChangeExplanation {
  readonly reason: ChangeReason;
  /** Milliseconds since 1970. */
  readonly changedAt: number;
  /** Null for changes that are not live, and for reasons that have none. */
  readonly cause: ChangeCause | null;
  /** True if a member has other columns and the reason does not say so. */
  readonly isUpdate?: boolean;
}

/** The name of an audience's event. */
export function audienceEvent(
  present: boolean,
  { reason, isUpdate = false }: Pick<ChangeExplanation, 'reason'> & { readonly isUpdate?: boolean | undefined },
): string {
  if (!present) return 'Audience Exited';
  return reason === 'changed' || isUpdate ? 'Audience Updated' : 'Audience Entered';
}

interface ChangeBody {
  readonly event?: string;
  readonly traits?: Readonly<Record<string, unknown>>;
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly context?: {
    readonly personas?: {
      readonly computation_class?: string;
      readonly computation_key?: string;
      readonly reason?: ChangeReason;
      readonly changedAt?: string;
      readonly cause?: ChangeCause;
      readonly update?: boolean;
    };
  };
}

/** Properties of events that are no values. */
const NAMES = new Set(['trait_key', 'trait_name']);

/** True if the body says that its user is a member, or has a value. */
function isPresent({ traits, properties = {}, context }: ChangeBody): boolean {
  const { computation_class: kind, computation_key: key = '' } = context?.personas ?? {};
  const values = traits ?? properties;
  if (kind === 'audience') return values[key] === true;
  return Object.entries(values).some(([name, value]) => value !== null && !NAMES.has(name));
}

/** The explanation in the body of a change; null if it has none. */
export function explanationOf(body: string): (ChangeExplanation & { readonly present: boolean }) | null {
  const change = JSON.parse(body) as ChangeBody;
  const { reason, changedAt, cause = null, update: isUpdate = false } = change.context?.personas ?? {};
  if (reason === undefined || changedAt === undefined) return null;
  return { present: isPresent(change), reason, changedAt: Date.parse(changedAt), cause, ...(isUpdate && { isUpdate }) };
}

/**
 * The body of a change that takes the place of an undelivered one: in the same direction it has that one's explanation,
 * with its own values.
 */
export function inPlaceOf(older: string, newer: string): string {
  // Bodies of earlier versions explain nothing.
  if (!older.includes('"changedAt":')) return newer;
  const [was, is] = [JSON.parse(older) as ChangeBody, JSON.parse(newer) as ChangeBody];
  const { reason, changedAt, cause, update } = was.context?.personas ?? {};
  const present = isPresent(is);
  if (reason === undefined || isPresent(was) !== present) return newer;
  const personas = { ...is.context?.personas, reason, changedAt, update, cause };
  const isEvent = is.event !== undefined && personas.computation_class === 'audience';
  const event = isEvent ? { event: audienceEvent(present, { reason, isUpdate: update }) } : {};
  // What is absent is left out of the text.
  return JSON.stringify({ ...is, ...event, context: { ...is.context, personas } });
}
