import { createHash } from 'node:crypto';
import { isoTime } from '../../src/kernel/timestamp.ts';
import type { ChangeExplanation } from '../../src/membership-change.ts';
import { withoutTraps } from '../../src/message.ts';
import type { ComputedKind } from '../engines/port.ts';

interface BodySpec {
  readonly key: string;
  readonly kind: ComputedKind;
  /** Traits that are null for users who left (traits only). */
  readonly columns: readonly string[];
  /** Traits that the definition no longer has: null for everyone. */
  readonly removed: readonly string[];
  /** The run's time. */
  readonly at: number;
  /** The time at which a body is made. */
  readonly now: () => number;
}

/** A user's change on its way into the queue. */
export interface MembershipChange extends ChangeExplanation {
  readonly userId: string;
  readonly present: boolean;
  /** JSON text of the traits object of a computed trait. */
  readonly value: string | null;
  readonly sequence: number;
}

/** Makes the JSON text of one user's identify (docs/wire.md). */
export type BodyBuilder = (messageId: string, change: MembershipChange) => string;

/** Builds the constant parts once: a backfill makes tens of thousands of bodies a second. */
export function bodyBuilder(spec: BodySpec): BodyBuilder {
  const traits = spec.kind === 'audience' ? audienceTraits(spec) : valueTraits(spec);
  const personas = {
    computation_class: spec.kind,
    computation_id: computationId(spec.kind, spec.key),
    computation_key: spec.key,
    sequence: 0,
  };
  const timestamp = `,"timestamp":${JSON.stringify(isoTime(spec.at))},"receivedAt":"`;
  const context = `","context":${JSON.stringify({ personas }).slice(0, -'0}}'.length)}`;
  let madeAt = Number.NaN;
  let times = '';
  return (messageId, change) => {
    const { userId, present, value, sequence } = change;
    const now = spec.now();
    if (now !== madeAt) {
      madeAt = now;
      times = `${timestamp}${isoTime(now)}${context}`;
    }
    return `{"version":1,"type":"identify","messageId":${JSON.stringify(messageId)},"userId":${JSON.stringify(userId)},"traits":${traits(present, value)}${times}${sequence},${explanationText(change)}}}}`;
  };
}

/** The members of `context.personas` that explain a change, as JSON text. */
function explanationText({ reason, changedAt, cause }: ChangeExplanation): string {
  const text = `"reason":"${reason}","changedAt":"${isoTime(changedAt)}"`;
  return cause === null ? text : `${text},"cause":${JSON.stringify(cause)}`;
}

type TraitsText = (present: boolean, value: string | null) => string;

function audienceTraits({ key, removed }: BodySpec): TraitsText {
  const entered = JSON.stringify({ [key]: true, ...nulls(removed) });
  const exited = JSON.stringify({ [key]: false, ...nulls(removed) });
  return (present) => (present ? entered : exited);
}

const nulls = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, null]));

function valueTraits({ key, columns, removed }: BodySpec): TraitsText {
  const told = [...columns, ...removed];
  const gone = withoutTraps(JSON.stringify(nulls(told.length > 0 ? told : [key])));
  const noLonger = nulls(removed);
  // Receivers parse the text, stringify it and compare: it must be as JSON.stringify writes it.
  return (present, value) =>
    present && value !== null ? withoutTraps(JSON.stringify({ ...(JSON.parse(value) as object), ...noLonger })) : gone;
}

/** Stays the same for an audience's whole life. */
function computationId(kind: ComputedKind, key: string): string {
  const hash = createHash('sha256').update(key).digest('hex').slice(0, 24);
  return `${kind === 'audience' ? 'aud' : 'trt'}_${hash}`;
}
