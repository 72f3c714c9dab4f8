import { hash } from 'node:crypto';
import type { Activity, FieldPlace } from '../../src/definition/definition.ts';
import { compareWhen, type When } from './event.ts';

/**
 * The part of one sort's events that is kept. `days`: how many, by the day of receipt. `times`: when they happened, as long as
 * that is in the window. `values`: a value of each, also where the window is longer than the log and forgotten days count.
 */
export interface Section {
  /** The same for equal sections of whatever definitions. */
  readonly id: string;
  readonly keeps: 'days' | 'times' | 'values';
  readonly activity: Activity;
  readonly of: FieldPlace | null;
}

export function sectionOf(activity: Activity, of: FieldPlace | null, keep: number): Section {
  const { within } = activity;
  const keeps = of !== null ? 'values' : within === null ? 'days' : within > keep ? 'values' : 'times';
  return { id: short(JSON.stringify([activity, of, keeps])), keeps, activity, of };
}

/** 72 bits. */
const short = (text: string) => hash('sha256', text, 'base64url').slice(0, 12);

/** A value, when it was so. */
export type Dated = readonly [...When, value: unknown];

/** The part of one id's events that the definitions need. All of it is JSON. */
export interface KeptFacts {
  /** Events of sections that keep `days`: how many were received on each day. */
  readonly days: { [section: string]: { [day: string]: number } };
  readonly times: { [section: string]: number[] };
  readonly values: { [section: string]: Dated[] };
  /** Of each trait the latest, and those that are the latest once others are forgotten. */
  readonly traits: { [trait: string]: Dated[] };
  /** Audiences by SQL that a user is in. */
  readonly in: { [audience: string]: true };
  /** Day of the latest receipt, where it matters who is there; 0 for nobody. */
  seen: number;
}

export function nothingKept(): KeptFacts {
  return { days: bare(), times: bare(), values: bare(), traits: bare(), in: bare(), seen: 0 };
}

/** Foreign text indexes these: nothing is inherited. */
const bare = () => Object.create(null) as Record<string, never>;

/** Reads what was kept as JSON. */
export function readKept(text: string): KeptFacts {
  const kept = nothingKept();
  for (const [part, said] of Object.entries(JSON.parse(text) as Partial<KeptFacts>)) {
    if (part === 'seen') kept.seen = Number(said);
    else Object.assign(kept[part as 'days'], said);
  }
  return kept;
}

/** Nothing of what is empty. */
export function writeKept({ seen, ...parts }: KeptFacts): string {
  const full = Object.entries(parts).filter(([, part]) => Object.keys(part).length > 0);
  // JSON.stringify takes own properties only, and `__proto__` is one here.
  return JSON.stringify(Object.fromEntries([...full, ...(seen > 0 ? [['seen', seen]] : [])]));
}

export function compareDated([t1, r1, m1]: Dated, [t2, r2, m2]: Dated): number {
  return compareWhen([t1, r1, m1], [t2, r2, m2]);
}

/**
 * Adds to those of which one decides as long as the log knows it, and another when it is forgotten; false where it never
 * will.
 *
 * @param covers - whether one decides before another, and is forgotten no earlier
 */
export function addToFront<T>(front: T[], added: T, covers: (one: T, other: T) => boolean): boolean {
  if (front.some((each) => covers(each, added))) return false;
  const left = front.filter((each) => !covers(added, each));
  front.splice(0, front.length, ...left, added);
  return true;
}
