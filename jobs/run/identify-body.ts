import { createHash } from 'node:crypto';
import type { ColumnChoice, MembershipForm } from '../../src/destination.ts';
import { isoTime } from '../../src/kernel/timestamp.ts';
import { audienceEvent, type ChangeExplanation } from '../../src/membership-change.ts';
import { withoutTraps } from '../../src/message.ts';
import type { ComputedKind } from '../engines/port.ts';

export interface BodySpec {
  readonly key: string;
  /** The name that people know it by, for events. */
  readonly name: string;
  readonly kind: ComputedKind;
  /** Traits that are null for users who left, or columns that go with an audience's changes. */
  readonly columns: readonly string[];
  /** Traits that the definition had: null for everyone, unless it has them again. */
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
  /** JSON text of the traits object of a computed trait, or of an audience's columns. */
  readonly value: string | null;
  readonly sequence: number;
}

/** Makes the JSON text of one user's identify or event (docs/wire.md). */
export type BodyBuilder = (messageId: string, change: MembershipChange) => string;

/** Builds the constant parts once: a backfill makes tens of thousands of bodies a second. */
export function bodyBuilder(spec: BodySpec, form: MembershipForm = 'identify', choice?: ColumnChoice): BodyBuilder {
  const traits = spec.kind === 'audience' ? audienceTraits(spec, choice) : valueTraits(spec);
  const details = form === 'identify' ? null : eventDetails(spec);
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
    const text = traits(present, value);
    const own = details === null ? `"traits":${text}` : details(change, text);
    return `{"version":1,"type":"${form}","messageId":${JSON.stringify(messageId)},"userId":${JSON.stringify(userId)},${own}${times}${sequence},${explanationText(change)}}}}`;
  };
}

/** The members of `context.personas` that explain a change, as JSON text. */
function explanationText({ reason, changedAt, cause, isUpdate = false }: ChangeExplanation): string {
  const text = `"reason":"${reason}","changedAt":"${isoTime(changedAt)}"${isUpdate ? ',"update":true' : ''}`;
  return cause === null ? text : `${text},"cause":${JSON.stringify(cause)}`;
}

type TraitsText = (present: boolean, value: string | null) => string;

function audienceTraits({ key, columns, removed }: BodySpec, choice: ColumnChoice | undefined): TraitsText {
  const chosen = columns
    .filter((name) => choice === undefined || Object.hasOwn(choice, name))
    .map((name) => ({ name, label: `,${JSON.stringify(name)}:`, isHashed: choice?.[name] === 'sha256' }));
  const noLonger = JSON.stringify(nulls(removed.filter((name) => name !== key && !columns.includes(name)))).slice(1);
  const rest = noLonger === '}' ? noLonger : `,${noLonger}`;
  const [entered, exited] = [true, false].map((present) => JSON.stringify({ [key]: present }).slice(0, -1));
  // Receivers parse the text, stringify it and compare. JavaScript writes keys that are whole numbers first.
  const isOrdered = ![key, ...columns, ...removed].some((name) => /^\d+$/.test(name));
  const written = (text: string) => withoutTraps(isOrdered ? text : JSON.stringify(JSON.parse(text)));
  return (present, value) => {
    let text = (present ? entered : exited) as string;
    if (value === null || chosen.length === 0) return written(text + rest);
    const known = JSON.parse(value) as Readonly<Record<string, unknown>>;
    for (const { name, label, isHashed } of chosen) {
      const column = Object.hasOwn(known, name) ? (known[name] ?? null) : null;
      const told = column !== null && isHashed ? hashed(column) : column;
      if (told !== null) text += label + JSON.stringify(told);
    }
    return written(text + rest);
  };
}

/** As advertising networks match people: of the trimmed, lower-case text. Null for empty text. */
function hashed(column: unknown): string | null {
  const text = (typeof column === 'object' ? JSON.stringify(column) : String(column)).trim().toLowerCase();
  return text === '' ? null : createHash('sha256').update(text).digest('hex');
}

/** Makes the name and properties of a change's event. */
function eventDetails({ key, name, kind }: BodySpec): (change: MembershipChange, traits: string) => string {
  const names = { [`${kind}_key`]: key, [`${kind}_name`]: name };
  const event = (change: MembershipChange) => {
    if (kind === 'trait') return 'Trait Computed';
    return audienceEvent(change.present, change);
  };
  return (change, traits) => {
    const properties = JSON.stringify({ ...names, ...(JSON.parse(traits) as object) });
    return `"event":"${event(change)}","properties":${withoutTraps(properties)}`;
  };
}

const nulls = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, null]));

function valueTraits({ key, columns, removed }: BodySpec): TraitsText {
  const told = [...columns, ...removed];
  const gone = withoutTraps(JSON.stringify(nulls(told.length > 0 ? told : [key])));
  const noLonger = nulls(removed.filter((name) => !columns.includes(name)));
  // Receivers parse the text, stringify it and compare: it must be as JSON.stringify writes it.
  return (present, value) =>
    present && value !== null ? withoutTraps(JSON.stringify({ ...(JSON.parse(value) as object), ...noLonger })) : gone;
}

/** Stays the same for an audience's whole life. */
function computationId(kind: ComputedKind, key: string): string {
  const hash = createHash('sha256').update(key).digest('hex').slice(0, 24);
  return `${kind === 'audience' ? 'aud' : 'trt'}_${hash}`;
}
