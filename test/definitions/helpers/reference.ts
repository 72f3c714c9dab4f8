import type { Condition } from '../../../src/definition/conditions.ts';
import type { Activity, FieldPlace, KeyPath, TraitValue } from '../../../src/definition/definition.ts';
import type { Test } from '../../../src/definition/operators.ts';
import type { LoggedEvent } from './event.ts';

/**
 * The meaning of docs/definitions.md, as plainly as it can be written: the compiled SQL has to agree with this. It shares no
 * code with the compiler.
 */
export interface History {
  readonly events: readonly LoggedEvent[];
  readonly now: number;
  /** Other audiences, by key: short definitions, or ids that some SQL returned. */
  readonly audiences: ReadonlyMap<string, Condition | ReadonlySet<string>>;
}

export function membersOf(condition: Condition, history: History): readonly string[] {
  const personOf = personsOf(history.events);
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
  const everybody = new Set([...mine.keys(), ...audienceKeys(condition).flatMap((key) => [...(named.get(key) ?? [])])]);
  return [...everybody]
    .filter((person) => isIn(condition, person, (mine.get(person) ?? []).toSorted(byOrder), named, history.now))
    .toSorted();
}

/** The value of each person who has one. */
export function valuesOf(value: TraitValue, history: History): Readonly<Record<string, unknown>> {
  const personOf = personsOf(history.events);
  const people = Map.groupBy(
    history.events.filter(({ timestamp }) => timestamp <= history.now),
    personOf,
  );
  const values = [...people].flatMap(([person, events]) => {
    const found = person === null ? undefined : valueOfEvents(value, events.toSorted(byOrder), history.now);
    return found === undefined ? [] : [[person as string, found] as const];
  });
  return Object.fromEntries(values);
}

function isIn(
  condition: Condition,
  person: string,
  events: readonly LoggedEvent[],
  named: ReadonlyMap<string, ReadonlySet<string>>,
  now: number,
): boolean {
  const also = (part: Condition) => isIn(part, person, events, named, now);
  if ('all' in condition) return condition.all.every(also);
  if ('any' in condition) return condition.any.some(also);
  if ('not' in condition) return !also(condition.not);
  if ('inAudience' in condition) return named.get(condition.inAudience)?.has(person) ?? false;
  if ('performed' in condition) {
    const times = events.filter((event) => counts(event, condition.performed, now)).length;
    return times >= condition.least && times <= (condition.most ?? Number.POSITIVE_INFINITY);
  }
  const [trait = '', ...rest] = condition.trait;
  const said = events.filter(
    ({ type, traits }) => type === 'identify' && traits !== null && Object.hasOwn(traits, trait),
  );
  const value = lookUp(said.at(-1)?.traits?.[trait], rest);
  return condition.tests.every((test) => passes(value, test));
}

function counts(event: LoggedEvent, { event: name, within, since, where }: Activity, now: number): boolean {
  if (event.type !== 'track' || event.event !== name || event.timestamp > now) return false;
  if (within !== null && event.timestamp <= now - within) return false;
  if (since !== null && event.timestamp < since) return false;
  return where.every(({ tests, ...place }) => tests.every((test) => passes(valueAt(event, place), test)));
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

function passes(value: unknown, { operator, operand }: Test): boolean {
  switch (operator) {
    case 'is':
      return value === operand;
    case 'isNot':
      return value !== operand;
    case 'in':
      return operand.some((each) => each === value);
    case 'contains':
      if (typeof value === 'string') return typeof operand === 'string' && value.includes(operand);
      return Array.isArray(value) && value.includes(operand);
    case 'exists':
      return (value !== undefined && value !== null) === operand;
    default: {
      if (typeof value !== typeof operand) return false;
      const sign = typeof value === 'string' ? compareText(value, String(operand)) : Number(value) - Number(operand);
      return { gt: sign > 0, gte: sign >= 0, lt: sign < 0, lte: sign <= 0 }[operator];
    }
  }
}

/** Code point by code point: JavaScript's own order is another beyond the first 65,536. */
function compareText(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

function valueOfEvents(value: TraitValue, events: readonly LoggedEvent[], now: number): unknown {
  const counted = events.filter((event) => counts(event, value.activity, now));
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
        .toSorted(byLikelyOrder)
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

/** A clock before 1973 was never set: such an event happened when it was received. The logs of tests forget nothing. */
function byLikelyOrder(a: LoggedEvent, b: LoggedEvent): number {
  const likely = (event: LoggedEvent) =>
    event.timestamp < Date.parse('1973-01-01') ? { ...event, timestamp: event.receivedAt } : event;
  return byOrder(likely(a), likely(b));
}

const NOBODY = /^(undefined|null|none|nil|nan|0|true|false|anonymous|guest|unknown|\[object object\]|\{\})$/i;

/** Whose an event is, with all that the log says of who is who. */
export function personsOf(
  events: readonly LoggedEvent[],
): (event: Pick<LoggedEvent, 'userId' | 'anonymousId'>) => string | null {
  const inTime = events.toSorted(byLikelyOrder);
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

function audienceKeys(condition: Condition): readonly string[] {
  if ('all' in condition) return condition.all.flatMap(audienceKeys);
  if ('any' in condition) return condition.any.flatMap(audienceKeys);
  if ('not' in condition) return audienceKeys(condition.not);
  return 'inAudience' in condition ? [condition.inAudience] : [];
}
