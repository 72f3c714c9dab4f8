import { createHash } from 'node:crypto';
import type { Condition } from '../../../src/definition/conditions.ts';
import type { Activity, ComputedPlace, Sequence, TraitValue } from '../../../src/definition/definition.ts';
import type { Test, ValueReference } from '../../../src/definition/operators.ts';
import type { FieldPlace, KeyPath } from '../../../src/definition/places.ts';
import type { LoggedEvent } from './event.ts';

/**
 * The meaning of docs/definitions.md, as plainly as it can be written: the compiled SQL has to agree with this. It shares no
 * code with the compiler.
 */
export interface History {
  readonly events: readonly LoggedEvent[];
  readonly now: number;
  /** How long the log keeps events, in milliseconds; forever without. */
  readonly keep?: number | undefined;
  /** Other audiences, by key: short definitions, or ids that some SQL returned. */
  readonly audiences: ReadonlyMap<string, Condition | ReadonlySet<string>>;
  /** Values of traits as last committed, by key, user and column. */
  readonly committed?: Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, unknown>>>>>>;
}

export function membersOf(condition: Condition, history: History): readonly string[] {
  const personOf = personsOf(history.events, history.keep);
  const mine = new Map<string, LoggedEvent[]>();
  for (const event of history.events.filter(({ timestamp }) => timestamp <= history.now)) {
    const person = personOf(event);
    if (person !== null) mine.set(person, [...(mine.get(person) ?? []), event]);
  }
  const named = new Map<string, ReadonlySet<string>>();
  for (const key of audienceKeys(condition)) {
    const audience = history.audiences.get(key) ?? new Set<string>();
    const ids = audience instanceof Set ? audience : new Set(membersOf(audience as Condition, history));
    named.set(key, new Set([...ids].map((userId) => personOf({ userId, anonymousId: null }) ?? userId)));
  }
  const canonical = (userId: string) => personOf({ userId, anonymousId: null }) ?? userId;
  const values = new Map(computedIn(condition).map((place) => [place, valuesAt(place, history, canonical)]));
  const everybody = new Set([
    ...mine.keys(),
    ...audienceKeys(condition).flatMap((key) => [...(named.get(key) ?? [])]),
    ...[...values.values()].flatMap((of) => [...of.keys()]),
  ]);
  return [...everybody]
    .filter((person) => isIn(condition, person, (mine.get(person) ?? []).toSorted(byOrder), { named, values }, history))
    .toSorted();
}

/** The traits of a person that are not null. */
export function traitsOf(
  person: string,
  traits: readonly string[],
  history: History,
): Readonly<Record<string, unknown>> {
  const personOf = personsOf(history.events, history.keep);
  const events = history.events
    .filter((event) => event.timestamp <= history.now && personOf(event) === person)
    .toSorted(byOrder);
  const values = traits.map((trait) => [trait, traitValue(events, [trait]) ?? null] as const);
  return Object.fromEntries(values.filter(([, value]) => value !== null));
}

/** The value of each person who has one. */
export function valuesOf(value: TraitValue, history: History): Readonly<Record<string, unknown>> {
  const personOf = personsOf(history.events, history.keep);
  const people = Map.groupBy(
    history.events.filter(({ timestamp }) => timestamp <= history.now),
    personOf,
  );
  const values = [...people].flatMap(([person, events]) => {
    const found = person === null ? undefined : valueOfEvents(value, events.toSorted(byOrder), history);
    return found === undefined ? [] : [[person as string, found] as const];
  });
  return Object.fromEntries(values);
}

function isIn(
  condition: Condition,
  person: string,
  events: readonly LoggedEvent[],
  others: { readonly named: ReadonlyMap<string, ReadonlySet<string>>; readonly values: Values },
  { now, keep }: Pick<History, 'now' | 'keep'>,
): boolean {
  const also = (part: Condition) => isIn(part, person, events, others, { now, keep });
  if ('all' in condition) return condition.all.every(also);
  if ('any' in condition) return condition.any.some(also);
  if ('not' in condition) return !also(condition.not);
  if ('inAudience' in condition) return others.named.get(condition.inAudience)?.has(person) ?? false;
  const context = { events, now };
  if ('performed' in condition) {
    const times = events.filter((event) => counts(event, condition.performed, context)).length;
    return times >= condition.least && times <= (condition.most ?? Number.POSITIVE_INFINITY);
  }
  if ('firstTime' in condition) {
    const { within, until, since, ...what } = condition.firstTime;
    const ever = { ...what, within: null, until: 0, since: null };
    const [first] = events.filter((event) => counts(event, ever, context)).toSorted(byLikelyOrder(keep));
    const at = first && likely(first, keep).timestamp;
    return at !== undefined && isInWindow(at, { within, until, since }, now);
  }
  if ('sequence' in condition) return isDone(condition.sequence, context);
  if ('split' in condition) {
    const { name, from, to } = condition.split;
    const bytes = createHash('sha256').update(`${name}:${person}`).digest();
    const bucket = Number(bytes.readBigUInt64BE() % 10_000n);
    return bucket >= from && bucket < to;
  }
  const value =
    'computed' in condition ? others.values.get(condition.computed)?.get(person) : traitValue(events, condition.trait);
  return condition.tests.every((test) => passes(value, test, null, context));
}

type Values = ReadonlyMap<ComputedPlace, ReadonlyMap<string, unknown>>;

/** Of several ids of a person that have a value, the current one counts, or else the first. */
function valuesAt(
  place: ComputedPlace,
  history: History,
  canonical: (user: string) => string,
): ReadonlyMap<string, unknown> {
  const { key, column, live } = place;
  if (live) return new Map(Object.entries(valuesOf(live.value, history)));
  const users = Object.entries(history.committed?.[key] ?? {}).flatMap(([user, values]) =>
    (values[column] ?? null) === null ? [] : [[user, values[column]] as const],
  );
  const last = users.toSorted(([a], [b]) => compareText(b, a));
  return new Map(
    [...last, ...users.filter(([user]) => canonical(user) === user)].map(([user, value]) => [canonical(user), value]),
  );
}

/** All that a person did until now, in order. */
interface Context {
  readonly events: readonly LoggedEvent[];
  readonly now: number;
}

function traitValue(events: readonly LoggedEvent[], [trait = '', ...rest]: KeyPath): unknown {
  const said = events.filter(
    ({ type, traits }) => type === 'identify' && traits !== null && Object.hasOwn(traits, trait),
  );
  return lookUp(said.at(-1)?.traits?.[trait], rest);
}

/** Tries every choice of messages. */
function isDone({ steps, not }: Sequence, context: Context): boolean {
  const { events, now } = context;
  const from = (place: number, chosen: readonly LoggedEvent[]): boolean => {
    const before = chosen.at(-1);
    const step = steps[place];
    if (step === undefined) {
      if (not === null || before === undefined) return true;
      const end = before.timestamp + not.atMost;
      const activity = { ...not.activity, within: null, since: null };
      const comes = events.some(
        (event) =>
          event !== before &&
          counts(event, activity, context) &&
          event.timestamp > before.timestamp &&
          event.timestamp <= end,
      );
      return !comes && now >= end;
    }
    return events.some((event) => {
      if (chosen.includes(event)) return false;
      const activity = place === 0 ? step.activity : { ...step.activity, within: null, since: null };
      if (!counts(event, activity, context)) return false;
      const passed = before === undefined ? 0 : event.timestamp - before.timestamp;
      if (passed < 0 || (before && (passed < step.atLeast || passed > (step.atMost ?? passed)))) return false;
      return from(place + 1, [...chosen, event]);
    });
  };
  return from(0, []);
}

function isInWindow(at: number, { within, until, since }: Pick<Activity, 'within' | 'until' | 'since'>, now: number) {
  if (at > now - until) return false;
  if (within !== null && at <= now - within) return false;
  return since === null || at >= since;
}

function counts(event: LoggedEvent, activity: Activity, context: Context): boolean {
  const { kind, names, where } = activity;
  if (event.type !== kind || (names !== null && !names.includes(String(event.event)))) return false;
  if (!isInWindow(event.timestamp, activity, context.now)) return false;
  return where.every(({ tests, ...place }) =>
    tests.every((test) => passes(valueAt(event, place), test, event, context)),
  );
}

function valueAt(event: LoggedEvent, { part, path }: FieldPlace): unknown {
  return lookUp(event[part], path);
}

function lookUp(value: unknown, path: KeyPath): unknown {
  return path.reduce<unknown>((inner, key) => {
    const isObject = typeof inner === 'object' && inner !== null && !Array.isArray(inner);
    return isObject && Object.hasOwn(inner, key) ? (inner as Record<string, unknown>)[key] : undefined;
  }, value);
}

function passes(value: unknown, test: Test, event: LoggedEvent | null, context: Context): boolean {
  const { operator } = test;
  const given = test.operand as unknown;
  const isReference = typeof given === 'object' && !Array.isArray(given);
  const meant = isReference ? meaning(given as ValueReference, event, context) : given;
  // Nothing equals what is not there, or is no single value.
  const operand = isReference && !['string', 'number', 'boolean'].includes(typeof meant) ? Number.NaN : meant;
  const [text, other] = [typeof value === 'string' ? value : null, typeof operand === 'string' ? operand : null];
  const has = () =>
    text === null
      ? Array.isArray(value) && value.some((each) => each === operand)
      : other !== null && text.includes(other);
  const [at, than] = [timeOf(value), timeOf(operand)];
  switch (operator) {
    case 'is':
      return value === operand;
    case 'isNot':
      return value !== operand;
    case 'in':
    case 'notIn':
      return (operand as unknown[]).some((each) => each === value) === (operator === 'in');
    case 'contains':
      return has();
    case 'notContains':
      return !has();
    case 'startsWith':
      return text !== null && other !== null && text.startsWith(other);
    case 'endsWith':
      return text !== null && other !== null && text.endsWith(other);
    case 'matches':
      return text !== null && globbed(String(operand)).test(text);
    case 'before':
      return at < than;
    case 'after':
      return at > than;
    case 'withinLast':
      return at > context.now - Number(operand) && at <= context.now;
    case 'withinNext':
      return at >= context.now && at < context.now + Number(operand);
    case 'exists':
      return (value !== undefined && value !== null) === operand;
    default: {
      if (typeof value !== typeof operand || typeof value === 'boolean') return false;
      const sign = typeof value === 'string' ? compareText(value, String(operand)) : Number(value) - Number(operand);
      return { gt: sign > 0, gte: sign >= 0, lt: sign < 0, lte: sign <= 0 }[operator];
    }
  }
}

function meaning(reference: ValueReference, event: LoggedEvent | null, { events }: Context): unknown {
  if ('trait' in reference) return traitValue(events, reference.trait);
  return event === null ? undefined : valueAt(event, reference.property);
}

function globbed(glob: string): RegExp {
  const parts = [...glob].map(
    (sign) => ({ '*': '[^]*', '?': '[^]' })[sign] ?? sign.replace(/[\\^$.|+()[\]{}/]/u, '\\$&'),
  );
  return new RegExp(`^(?:${parts.join('')})$`, 'u');
}

/** NaN for what is no ISO time with a day that its month has. */
function timeOf(value: unknown): number {
  const form = /^(\d{4}-\d\d-\d\d)([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?)?$/i;
  const [all = null, day = '', time = ''] = (typeof value === 'string' && form.exec(value)) || [];
  if (all === null || day < '0001' || time.slice(1, 3) > '23') return Number.NaN;
  const midnight = new Date(`${day}T00:00:00Z`);
  if (Number.isNaN(midnight.getTime()) || midnight.toISOString().slice(0, 10) !== day) return Number.NaN;
  const [, clock = '00:00', offset = ''] = /^.([\d:.,]+)(.*)$/.exec(time) ?? [];
  const [, sign = '+', hours = '00', minutes = '00'] = /^([+-])(\d\d):?(\d\d)?$/.exec(offset) ?? [];
  return Math.floor(Date.parse(`${day}T${clock.replace(',', '.')}${sign}${hours}:${minutes}`));
}

/** Code point by code point: JavaScript's own order is another beyond the first 65,536. */
function compareText(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

function valueOfEvents(
  value: TraitValue,
  events: readonly LoggedEvent[],
  { now, keep }: Pick<History, 'now' | 'keep'>,
): unknown {
  const counted = events.filter((event) => counts(event, value.activity, { events, now }));
  if (value.operator === 'count') return counted.length > 0 ? counted.length : undefined;
  const all = counted.map((event) => valueAt(event, value.of));
  const numbers = all.filter((each) => typeof each === 'number');
  const scalars = all.filter((each) => ['string', 'number', 'boolean'].includes(typeof each));
  const different = [...new Set(scalars)].toSorted(byValue);
  const has = <T>(list: readonly unknown[], result: () => T) => (list.length > 0 ? result() : undefined);
  // Fifteen digits are sent, of numbers that have them.
  const told = (result: number) => {
    if (!Number.isFinite(result)) return;
    const up = Number(result.toPrecision(15));
    // toPrecision rounds a half away from zero; databases, to the even digit.
    const below = result.toExponential(60).replace(/(\.\d{14})5(0+)e/, '$1e');
    const isHalf = below !== result.toExponential(60);
    const rounded = isHalf && Number((/(\d)e/.exec(below) ?? [])[1]) % 2 === 0 ? Number(below) : up;
    return Number.isFinite(rounded) ? rounded : undefined;
  };
  const sum = exactSum(numbers);
  switch (value.operator) {
    case 'sum':
      return has(numbers, () => told(sum));
    case 'average':
      return has(numbers, () => told(sum / numbers.length));
    case 'min':
      return has(numbers, () => told(Math.min(...numbers)));
    case 'max':
      return has(numbers, () => told(Math.max(...numbers)));
    case 'first':
      return counted
        .toSorted(byLikelyOrder(keep))
        .map((event) => valueAt(event, value.of))
        .find((each) => scalars.includes(each));
    case 'last':
      return scalars.at(-1);
    case 'uniqueCount':
      return has(scalars, () => different.length);
    case 'uniqueList':
      return has(scalars, () => {
        const list = different.slice(0, 1_000);
        return JSON.stringify({ x: list }).length > 250_000 ? undefined : list;
      });
    case 'mostFrequent': {
      const times = (each: unknown) => scalars.filter((other) => other === each).length;
      return different.toSorted((a, b) => times(b) - times(a))[0];
    }
  }
}

/** Every decimal is a whole number of the smallest part that a number may have. */
const SMALLEST = 400;

function exactSum(numbers: readonly number[]): number {
  const whole = numbers.map((each) => {
    const [digits = '', exponent = '0'] = String(each).split('e');
    const [before = '', after = ''] = digits.split('.');
    return BigInt(before + after + '0'.repeat(SMALLEST + Number(exponent) - after.length));
  });
  return Number(`${whole.reduce((sum, each) => sum + each, 0n)}e-${SMALLEST}`);
}

const RANKS = ['boolean', 'number', 'string'];

function byValue(a: unknown, b: unknown): number {
  const rank = RANKS.indexOf(typeof a) - RANKS.indexOf(typeof b);
  if (rank !== 0) return rank;
  return typeof a === 'number' ? a - Number(b) : compareText(String(a), String(b));
}

function byOrder(a: LoggedEvent, b: LoggedEvent): number {
  return a.timestamp - b.timestamp || a.receivedAt - b.receivedAt || compareText(a.messageId, b.messageId);
}

/** A clock before 1973 was never set, and one that is slower than the log keeps events is wrong: the receipt counts. */
function likely(event: LoggedEvent, keep = Number.POSITIVE_INFINITY): LoggedEvent {
  const isWrong = event.timestamp < Date.parse('1973-01-01') || event.timestamp < event.receivedAt - keep;
  return isWrong ? { ...event, timestamp: event.receivedAt } : event;
}

function byLikelyOrder(keep?: number): (a: LoggedEvent, b: LoggedEvent) => number {
  return (a, b) => byOrder(likely(a, keep), likely(b, keep));
}

const NOBODY = /^(undefined|null|none|nil|nan|0|true|false|anonymous|guest|unknown|\[object object\]|\{\})$/i;

/** Whose an event is, with all that the log says of who is who. */
export function personsOf(
  events: readonly LoggedEvent[],
  keep?: number,
): (event: Pick<LoggedEvent, 'userId' | 'anonymousId'>) => string | null {
  const inTime = events.toSorted(byLikelyOrder(keep));
  const aliased = new Map<string, { readonly user: string; readonly turn: number }>();
  const owner = new Map<string, string>();
  for (const [turn, { type, userId, anonymousId, previousId }] of inTime.entries()) {
    const linked = type === 'alias' ? previousId : anonymousId;
    if (userId === null || NOBODY.test(userId) || NOBODY.test(linked ?? '')) continue;
    if (type === 'alias' && previousId !== null && previousId !== userId)
      aliased.set(previousId, { user: userId, turn });
    const claimed = type === 'alias' ? previousId : type === 'identify' ? anonymousId : null;
    if (claimed !== null && !owner.has(claimed)) owner.set(claimed, userId);
  }
  const canonical = (id: string): string => {
    const way = [id];
    for (let next = aliased.get(id); next; next = aliased.get(next.user)) {
      const back = way.indexOf(next.user);
      // Of a circle the latest alias decides.
      if (back >= 0) {
        const circle = way.slice(back).map((each) => aliased.get(each));
        return circle.toSorted((a, b) => (b?.turn ?? 0) - (a?.turn ?? 0))[0]?.user ?? id;
      }
      way.push(next.user);
    }
    return way.at(-1) ?? id;
  };
  return ({ userId, anonymousId }) => {
    if (userId !== null) return canonical(userId);
    const owned = anonymousId === null ? undefined : owner.get(anonymousId);
    return owned === undefined ? null : canonical(owned);
  };
}

function computedIn(condition: Condition): readonly ComputedPlace[] {
  if ('all' in condition) return condition.all.flatMap(computedIn);
  if ('any' in condition) return condition.any.flatMap(computedIn);
  if ('not' in condition) return computedIn(condition.not);
  return 'computed' in condition ? [condition.computed] : [];
}

function audienceKeys(condition: Condition): readonly string[] {
  if ('all' in condition) return condition.all.flatMap(audienceKeys);
  if ('any' in condition) return condition.any.flatMap(audienceKeys);
  if ('not' in condition) return audienceKeys(condition.not);
  return 'inAudience' in condition ? [condition.inAudience] : [];
}
