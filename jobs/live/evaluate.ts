import { holds } from '../../src/definition/conditions.ts';
import { isPlaceholder } from '../../src/kernel/placeholders.ts';
import type { AskedFacts, AskedOfAll } from './facts.ts';
import { type JudgedPerson, latestTrait, sooner } from './judge/person.ts';
import { type Evaluation, isTooLong, traitValue } from './judge/trait-value.ts';
import type { KeptFacts } from './kept.ts';

/** All definitions' values for a person, and when one may change by time alone. */
interface PersonValues {
  /** Values by key. A missing key means that the person is not in it. */
  readonly values: ReadonlyMap<string, unknown>;
  readonly due: number | null;
}

/** @param person - kept facts of all ids of one person */
export function standingOf(asked: AskedOfAll, user: string, person: readonly KeptFacts[], now: number): PersonValues {
  const values = new Map<string, unknown>();
  let due: number | null = null;
  const isNobody = isPlaceholder(user);
  for (const definition of askingFor(asked, person)) {
    if (isNobody && !definition.allowPlaceholders) continue;
    const verdict = evaluate(definition, { user, kept: person, now });
    due = sooner(due, verdict.due);
    if (verdict.value !== undefined) values.set(definition.key, verdict.value);
  }
  return { values, due };
}

/** Definitions that may have a value: of hundreds, most ask for events that this person never had. */
function askingFor({ askingFor, forAll }: AskedOfAll, person: readonly KeptFacts[]): ReadonlySet<AskedFacts> {
  const found = new Set(forAll);
  const add = (part: object, asking: ReadonlyMap<string, readonly AskedFacts[]>) => {
    for (const name of Object.keys(part)) for (const each of asking.get(name) ?? []) found.add(each);
  };
  for (const { days, times, values, traits, in: audiences } of person) {
    for (const part of [days, times, values]) add(part, askingFor.sections);
    add(traits, askingFor.traits);
    add(audiences, askingFor.audiences);
  }
  return found;
}

function evaluate(asked: AskedFacts, person: JudgedPerson): Evaluation {
  if (asked.kind === 'trait') return traitValue(asked, person);
  let due: number | null = null;
  const facts = asked.facts.map((fact) => {
    const judged = fact.judge(person);
    due = sooner(due, judged.due);
    return judged.isTrue;
  });
  const isIn = holds(asked.formula, (fact) => facts[fact] ?? false);
  // A person who was never seen is in no audience, even if its condition is not having done something.
  const isThere =
    asked.facts.some(({ isOfId }, place) => facts[place] === true && !isOfId) ||
    person.kept.some(
      (kept) => kept.seen > 0 || asked.facts.some(({ audiences }) => audiences.some((name) => name in kept.in)),
    );
  return { value: isIn && isThere ? columnsOf(asked.columns, person) : undefined, due };
}

/** The columns of a member; true if there are none. */
function columnsOf(columns: AskedAudience['columns'], person: JudgedPerson): unknown {
  const given = columns.flatMap(([column, trait]) => {
    const value = latestTrait(person, trait) ?? null;
    return value === null ? [] : [[column, value] as const];
  });
  const value = Object.fromEntries(given);
  return given.length === 0 || isTooLong(value) ? true : value;
}

type AskedAudience = Extract<AskedFacts, { readonly kind: 'audience' }>;
