import { LONGEST_LIST, type TraitValue } from '../../../src/definition/definition.ts';
import { compareText } from '../../../src/definition/operators.ts';
import { LONGEST_VALUE } from '../../engines/port.ts';
import { byLikelyTime, compareDated, type Dated, type Section, sectionOf } from '../kept.ts';
import { entriesOf, type JudgedPerson, lastCounted, sooner } from './person.ts';

/** A definition's value for a person, and how long it holds without new events. */
export interface Evaluation {
  /** True for members of an audience, or their columns; undefined for everybody else. */
  readonly value: unknown;
  /** The time at which it may change without events; null for never. */
  readonly due: number | null;
}

/** The section to keep for a trait. @param keep - how long the log keeps events, in milliseconds */
export const traitSection = (value: TraitValue, keep: number): Section =>
  sectionOf(value.activity, value.operator === 'count' ? null : value.of, keep);

/** The value of a trait; undefined for none. */
export function traitValue(
  { key, value, section }: { readonly key: string; readonly value: TraitValue; readonly section: Section },
  person: JudgedPerson,
): Evaluation {
  const { id, keeps, activity } = section;
  const { kept, now } = person;
  if (keeps === 'days') {
    const count = kept.flatMap(({ days }) => Object.values(days[id] ?? {})).reduce((sum, each) => sum + each, 0);
    return { value: count > 0 ? count : undefined, due: null };
  }
  const window = { within: activity.within, until: activity.until };
  if (keeps === 'times') {
    const { counted, due } = countedIn(
      kept.flatMap(({ times }) => times[id] ?? []),
      (at) => at,
      window,
      now,
    );
    return { value: counted.length > 0 ? counted.length : undefined, due };
  }
  const { entries, due: moves } = entriesOf(section, person);
  const { counted, due } = countedIn(entries, ([at]) => at, window, now);
  const order = value.operator === 'first' ? byLikelyTime(section.keep) : compareDated;
  const found = result(value.operator, counted.toSorted(order));
  const isRefused = Array.isArray(found) && isTooLong({ [key]: found });
  return { value: isRefused ? undefined : found, due: sooner(due, moves) };
}

/** Finds the items within a window, and the time at which others will be. */
function countedIn<T>(
  all: readonly T[],
  timeOf: (each: T) => number,
  { within, until }: { readonly within: number | null; readonly until: number },
  now: number,
): { readonly counted: readonly T[]; readonly due: number | null } {
  const start = within === null ? Number.NEGATIVE_INFINITY : now - within;
  const inside = all.filter((each) => timeOf(each) > start);
  const last = lastCounted(now, until);
  const counted = inside.filter((each) => timeOf(each) <= last);
  const coming = inside.filter((each) => timeOf(each) > last).map(timeOf);
  const enters = coming.length === 0 ? null : coming.reduce((least, at) => Math.min(least, at)) + until;
  return { counted, due: sooner(enters, leavesAt(counted.map(timeOf), within)) };
}

function leavesAt(times: readonly number[], within: number | null): number | null {
  if (within === null || times.length === 0) return null;
  return times.reduce((least, at) => Math.min(least, at)) + within;
}

/** @param dated - sorted by time */
function result(operator: TraitValue['operator'], dated: readonly Dated[]): unknown {
  const scalars = dated.map(([, , , value]) => value);
  const numbers = scalars.filter((each) => typeof each === 'number');
  switch (operator) {
    case 'count':
      return scalars.length > 0 ? scalars.length : undefined;
    case 'sum':
      return numbers.length > 0 ? shown(sumOf(numbers)) : undefined;
    case 'average':
      return numbers.length > 0 ? shown(sumOf(numbers) / numbers.length) : undefined;
    case 'min':
      return numbers.length > 0 ? shown(numbers.reduce((least, each) => Math.min(least, each))) : undefined;
    case 'max':
      return numbers.length > 0 ? shown(numbers.reduce((most, each) => Math.max(most, each))) : undefined;
    case 'first':
      return scalars[0];
    case 'last':
      return scalars.at(-1);
    default:
      return scalars.length > 0 ? ofDifferent(operator, scalars) : undefined;
  }
}

function ofDifferent(operator: 'uniqueCount' | 'uniqueList' | 'mostFrequent', scalars: readonly unknown[]): unknown {
  const times = new Map<unknown, number>();
  for (const each of scalars) times.set(each, (times.get(each) ?? 0) + 1);
  if (operator === 'uniqueCount') return times.size;
  const different = [...times.keys()].toSorted(byValue);
  if (operator === 'uniqueList') return different.slice(0, LONGEST_LIST);
  return different.toSorted((a, b) => (times.get(b) ?? 0) - (times.get(a) ?? 0))[0];
}

/** Only lists and columns can exceed the limit of a value: a single text comes from one message. */
export function isTooLong(value: object): boolean {
  const text = JSON.stringify(value);
  return text.length > LONGEST_VALUE && [...text].length > LONGEST_VALUE;
}

/** Fifteen digits, the last one even, and exactly half of a digit more. */
const HALF = /^(-?\d\.\d{13}[02468])50*e(.*)$/;

/**
 * Rounds to the fifteen digits that are sent; a half to the even digit, as databases do. Numbers beyond a double have no
 * value, as in SQL.
 */
function shown(value: number): number | undefined {
  const [, digits, exponent] = HALF.exec(value.toExponential(40)) ?? [];
  const rounded = Number(digits === undefined ? value.toPrecision(15) : `${digits}e${exponent}`);
  return Number.isFinite(rounded) ? rounded : undefined;
}

/** The exact sum of the decimals that JSON has, as in SQL, whatever their order and size. */
function sumOf(numbers: readonly number[]): number {
  const decimals = numbers.map((each) => {
    const [mantissa = '', exponent = '0'] = String(each).split('e');
    const [whole = '', fraction = ''] = mantissa.split('.');
    return { digits: BigInt(whole + fraction), exponent: Number(exponent) - fraction.length };
  });
  const least = decimals.reduce((most, { exponent }) => Math.min(most, exponent), 0);
  const sum = decimals.reduce((sum, { digits, exponent }) => sum + digits * 10n ** BigInt(exponent - least), 0n);
  return Number(`${sum}e${least}`);
}

const RANKS = ['boolean', 'number', 'string'];

/** Sorts booleans first, then numbers by size, then text by code points. */
function byValue(a: unknown, b: unknown): number {
  const rank = RANKS.indexOf(typeof a) - RANKS.indexOf(typeof b);
  if (rank !== 0) return rank;
  return typeof a === 'number' ? a - Number(b) : compareText(String(a), String(b));
}
