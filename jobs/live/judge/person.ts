import { changesAt, passesAll, type TestContext, type ValueReference } from '../../../src/definition/operators.ts';
import { valueAt } from '../event.ts';
import { compareDated, type Dated, type KeptFacts, type Section } from '../kept.ts';

/** Somebody, and the instant at which facts are judged. */
export interface JudgedPerson {
  readonly user: string;
  /** Kept facts of all ids of the person. */
  readonly kept: readonly KeptFacts[];
  readonly now: number;
}

export function sooner(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}

/** The value of a trait in the latest `identify` that has it; undefined for none. */
export function latestTrait({ kept }: JudgedPerson, trait: string): unknown {
  return kept
    .flatMap(({ traits }) => traits[trait] ?? [])
    .toSorted(compareDated)
    .at(-1)?.[3];
}

export function contextOf(person: JudgedPerson): TestContext {
  const resolve = (reference: ValueReference) => {
    if (!('trait' in reference)) return undefined;
    const [trait = '', ...rest] = reference.trait;
    return valueAt(latestTrait(person, trait), rest);
  };
  return { now: person.now, resolve };
}

/** Entries of a section that pass its moving filters, in or out of the window, and when others may. */
export function entriesOf(
  { id, moving }: Section,
  person: JudgedPerson,
): { readonly entries: readonly Dated[]; readonly due: number | null } {
  const entries = person.kept.flatMap(({ values }) => values[id] ?? []);
  if (moving.length === 0) return { entries, due: null };
  const context = contextOf(person);
  let due: number | null = null;
  const passing = entries.filter(([, , , , inputs = []]) => {
    for (const [place, { tests }] of moving.entries())
      for (const test of tests) due = sooner(due, changesAt(inputs[place], test, person.now));
    return moving.every(({ tests }, place) => passesAll(inputs[place], tests, context));
  });
  return { entries: passing, due };
}

/** The latest time that counts. What was received with a time that is in the future by a corrected clock counts at once. */
export function lastCounted(now: number, until: number): number {
  return until === 0 ? Number.POSITIVE_INFINITY : now - until;
}
