import { hash } from 'node:crypto';
import partition from 'lodash/partition.js';
import type { Activity, ComputedPlace, PlaceFilter } from '../../src/definition/definition.ts';
import { isFixed } from '../../src/definition/operators.ts';
import type { FieldPlace } from '../../src/definition/places.ts';
import { compareWhen, likelyTime, type When } from './event.ts';

/**
 * The kept part of some events. `days`: their number by day of receipt. `times`: their timestamps within the window.
 * `values`: a dated value of each, also used if the window is longer than the log, so that forgotten days matter.
 * `first`: as `values`, of the earliest and those that become the earliest once others are forgotten.
 */
export interface Section {
  /** Equal sections of different definitions have the same id. */
  readonly id: string;
  readonly keeps: 'days' | 'times' | 'values' | 'first';
  readonly activity: Activity;
  readonly of: FieldPlace | null;
  /** Filters that depend on the event alone. */
  readonly fixed: readonly PlaceFilter[];
  /** Filters that depend on the time or on the person's traits: the values at their places are kept. */
  readonly moving: readonly PlaceFilter[];
  /** Milliseconds for which the log keeps events. */
  readonly keep: number;
}

export function sectionOf(
  activity: Activity,
  of: FieldPlace | null,
  keep: number,
  form: 'as few' | 'values' | 'first' = 'as few',
): Section {
  const { within, where } = activity;
  const [moving, fixed] = partition(where, ({ tests }) => !tests.every(isFixed));
  const isDated = of !== null || moving.length > 0 || (within !== null && within > keep);
  const keeps = form !== 'as few' ? form : isDated ? 'values' : within === null ? 'days' : 'times';
  return { id: short(JSON.stringify([activity, of, keeps])), keeps, activity, of, fixed, moving, keep };
}

/** A hash of 72 bits. */
const short = (text: string) => hash('sha256', text, 'base64url').slice(0, 12);

/** A value with its time, and the values at the places of moving filters. */
export type Dated = readonly [...When, value: unknown, moving?: readonly unknown[]];

/** The name of a computed value that is imported. Keys never contain `|`; the name of an audience is its key. */
export const referenceTo = ({ key, column }: Pick<ComputedPlace, 'key' | 'column'>) => `${key}|${column}`;

export function readReference(name: string): { readonly key: string; readonly column: string | null } {
  const end = name.indexOf('|');
  return end < 0 ? { key: name, column: null } : { key: name.slice(0, end), column: name.slice(end + 1) };
}

/** True for a member of an audience computed by SQL; a computed value, with the user id that has it. */
export type Imported = true | readonly [user: string, value: unknown];

/** The part of one id's events that the definitions need, as plain JSON values. */
export interface KeptFacts {
  /** For sections that keep `days`, the number of events received on each day. */
  readonly days: { [section: string]: { [day: string]: number } };
  readonly times: { [section: string]: number[] };
  readonly values: { [section: string]: Dated[] };
  /** For each trait the latest value, and those that become the latest once others are forgotten. */
  readonly traits: { [trait: string]: Dated[] };
  /** Values of a user from the last syncs, by the names of `referenceTo`. */
  readonly in: { [name: string]: Imported };
  /** Day of the latest receipt, kept only if `everybody` is asked for; 0 for none. */
  seen: number;
}

export function nothingKept(): KeptFacts {
  return { days: bare(), times: bare(), values: bare(), traits: bare(), in: bare(), seen: 0 };
}

/** Objects without a prototype, since their keys are foreign text. */
const bare = () => Object.create(null) as Record<string, never>;

export function readKept(text: string): KeptFacts {
  const kept = nothingKept();
  for (const [part, said] of Object.entries(JSON.parse(text) as Partial<KeptFacts>)) {
    if (part === 'seen') kept.seen = Number(said);
    else Object.assign(kept[part as 'days'], said);
  }
  return kept;
}

/** Writes JSON without empty parts. */
export function writeKept({ seen, ...parts }: KeptFacts): string {
  const full = Object.entries(parts).filter(([, part]) => Object.keys(part).length > 0);
  // JSON.stringify writes own properties only, and `__proto__` is one here.
  return JSON.stringify(Object.fromEntries([...full, ...(seen > 0 ? [['seen', seen]] : [])]));
}

/** The order in which they are likely to have happened. @param keep - as that of a section */
export function byLikelyTime(keep: number) {
  const likely = ([at, receivedAt, id]: Dated): When => [likelyTime(at, receivedAt, keep), receivedAt, id];
  return (one: Dated, other: Dated) => compareWhen(likely(one), likely(other));
}

export function compareDated([t1, r1, m1]: Dated, [t2, r2, m2]: Dated): number {
  return compareWhen([t1, r1, m1], [t2, r2, m2]);
}

/**
 * Adds to a list of candidates: one decides until the log forgets it, then another does. False if the added one never will.
 *
 * @param covers - true if one takes precedence over another and is forgotten no earlier
 */
export function addToFront<T>(front: T[], added: T, covers: (one: T, other: T) => boolean): boolean {
  if (front.some((each) => covers(each, added))) return false;
  const left = front.filter((each) => !covers(added, each));
  front.splice(0, front.length, ...left, added);
  return true;
}
