import { type Condition, type Formula, factsOf, mayHoldForAll, replaced } from '../../src/definition/conditions.ts';
import type { Activity, TraitValue } from '../../src/definition/definition.ts';
import { traitsIn } from '../../src/definition/operators.ts';
import { type AskedFact, askedFact } from './fact-kinds.ts';
import { traitSection } from './judge/trait-value.ts';
import type { Section } from './kept.ts';

/** The definition of a live audience or trait. Its condition already includes short definitions of audiences it refers to. */
export type LiveDefinition = Keyed &
  (
    | {
        readonly kind: 'audience';
        readonly when: Condition;
        /** The trait of each column that goes with its changes. */
        readonly columns?: Readonly<Record<string, string>>;
      }
    | { readonly kind: 'trait'; readonly value: TraitValue }
  );

interface Keyed {
  readonly key: string;
  /** True if ids that mean nobody may be members. */
  readonly allowPlaceholders?: boolean;
}

/** A definition split into the facts that it asks for. */
export type AskedFacts = Keyed &
  (
    | {
        readonly kind: 'audience';
        readonly facts: readonly AskedFact[];
        readonly formula: Formula;
        readonly columns: readonly (readonly [column: string, trait: string])[];
        /** True if it holds for people of whom nothing is known but that they exist. */
        readonly holdsForAll: boolean;
      }
    | {
        readonly kind: 'trait';
        readonly value: TraitValue;
        readonly section: Section;
        /** Outermost keys of traits that its filters refer to. */
        readonly traits: readonly string[];
      }
  );

/** All facts that the definitions of one source ask for. Nothing else is kept. */
export interface AskedOfAll {
  readonly definitions: readonly AskedFacts[];
  readonly byKey: ReadonlyMap<string, AskedFacts>;
  /** Sections by kind and name of messages; by kind alone if any name counts. */
  readonly sections: ReadonlyMap<string, readonly Section[]>;
  readonly sectionById: ReadonlyMap<string, Section>;
  /** For sections that keep `times`, the number of newest ones that all definitions need. No more are kept. */
  readonly newest: ReadonlyMap<string, number>;
  /** Definitions by the section, trait or audience that they ask for. */
  readonly askingFor: { readonly sections: Asking; readonly traits: Asking; readonly audiences: Asking };
  /** Definitions that hold for people of whom nothing is known but that they exist. */
  readonly forAll: readonly AskedFacts[];
  /** Outermost keys of traits. */
  readonly traits: ReadonlySet<string>;
  /** Names of audiences and values that are imported from syncs. */
  readonly audiences: ReadonlySet<string>;
  /** True if everybody seen must be known, whatever they did. */
  readonly everybody: boolean;
  /** Milliseconds for which the log keeps events. */
  readonly keep: number;
  /** A JSON description of what is kept. */
  readonly text: string;
}

type Asking = ReadonlyMap<string, readonly AskedFacts[]>;

/** Version of the format of kept facts. */
const FORM = 5;

/** @param keep - how long the log keeps events, in milliseconds */
export function askedOf(definitions: readonly LiveDefinition[], keep: number): AskedOfAll {
  const asked = definitions.map((definition) => takeApart(definition, keep));
  const byId = new Map(asked.flatMap(sectionsOf).map((section) => [section.id, section]));
  const traits = new Set(asked.flatMap(traitsOf));
  const audiences = new Set(asked.flatMap(audiencesOf));
  const forAll = asked.filter((each) => each.kind === 'audience' && each.holdsForAll);
  const everybody = forAll.length > 0;
  const newest = newestOf(asked);
  // An infinite limit becomes null in JSON.
  const sections = [...byId.keys()].toSorted().map((id) => [id, newest.get(id)]);
  const text = JSON.stringify([
    `${FORM} ${keep}`,
    everybody,
    sections,
    [...traits].toSorted(),
    [...audiences].toSorted(),
  ]);
  return {
    definitions: asked,
    byKey: new Map(asked.map((each) => [each.key, each])),
    sections: byNames([...byId.values()]),
    sectionById: byId,
    newest,
    askingFor: {
      sections: by(asked, (each) => sectionsOf(each).map(({ id }) => id)),
      traits: by(asked, traitsOf),
      audiences: by(asked, audiencesOf),
    },
    forAll,
    traits,
    audiences,
    everybody,
    keep,
    text,
  };
}

function byNames(sections: readonly Section[]): ReadonlyMap<string, readonly Section[]> {
  const keyed = sections.flatMap((section) => namesOf(section.activity).map((name) => ({ name, section })));
  return new Map(
    [...Map.groupBy(keyed, ({ name }) => name)].map(([name, own]) => [name, own.map(({ section }) => section)]),
  );
}

const namesOf = ({ kind, names }: Activity) => names?.map((name) => `${kind} ${name}`) ?? [kind];

const NO_SECTIONS: readonly Section[] = [];

/** The sections that may keep an event. */
export function sectionsFor(
  { sections }: AskedOfAll,
  { type, event }: { readonly type: string; readonly event: string | null },
): readonly Section[] {
  const named = event === null ? undefined : sections.get(`${type} ${event}`);
  const any = sections.get(type);
  return named && any ? [...named, ...any] : (named ?? any ?? NO_SECTIONS);
}

/** Events leave a window oldest first, so the newest decide if there are enough. */
function newestOf(asked: readonly AskedFacts[]): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  const add = ({ id, keeps }: Section, count: number) => {
    if (keeps === 'times') found.set(id, Math.max(found.get(id) ?? 0, count));
  };
  for (const each of asked) {
    if (each.kind === 'trait') add(each.section, Number.POSITIVE_INFINITY);
    else for (const { section, newest } of each.facts.flatMap(({ sections }) => sections)) add(section, newest);
  }
  return found;
}

function by(asked: readonly AskedFacts[], namesOf: (asked: AskedFacts) => readonly string[]): Asking {
  const found = new Map<string, AskedFacts[]>();
  for (const each of asked) {
    for (const name of new Set(namesOf(each))) found.set(name, [...(found.get(name) ?? []), each]);
  }
  return found;
}

/**
 * Replaces references to audiences with their conditions.
 *
 * @param audience - null for one computed by SQL, which stays a reference
 */
export function inlined(condition: Condition, audience: (key: string) => Condition | null): Condition {
  return replaced(condition, (single) => {
    const named = 'inAudience' in single ? audience(single.inAudience) : null;
    return named ? inlined(named, audience) : single;
  });
}

/** True if the kept facts include all that `asked` needs. Ignores audiences, whose members are imported anyway. */
export function isEnough(kept: string, asked: string): boolean {
  const [form, everybody, sections, traits] = JSON.parse(kept) as Text;
  const [itsForm, itsEverybody, itsSections, itsTraits] = JSON.parse(asked) as Text;
  if (form !== itsForm) return false;
  const known = new Map(sections);
  const hasSections = itsSections.every(([id, newest]) => {
    const limit = known.get(id);
    return limit === null || (limit !== undefined && newest !== null && newest <= limit);
  });
  return (everybody || !itsEverybody) && hasSections && itsTraits.every((trait) => traits.includes(trait));
}

type Text = readonly [
  ...[form: string, everybody: boolean],
  ...[sections: readonly (readonly [id: string, newest: number | null])[], traits: readonly string[]],
];

interface Added {
  readonly sections: ReadonlySet<string>;
  readonly traits: ReadonlySet<string>;
  readonly audience: string | null;
}

/** True if a definition's condition or value asks for something that was added. */
export function asksFor(asked: AskedFacts, { sections, traits, audience }: Added): boolean {
  if (sectionsOf(asked).some(({ id }) => sections.has(id))) return true;
  if (audience !== null && audiencesOf(asked).includes(audience)) return true;
  return conditionTraits(asked).some((trait) => traits.has(trait));
}

/** True if a column of an audience was added. */
export function hasColumnIn(asked: AskedFacts, { traits }: Added): boolean {
  return columnTraits(asked).some((trait) => traits.has(trait));
}

function takeApart(definition: LiveDefinition, keep: number): AskedFacts {
  const { key, allowPlaceholders = false } = definition;
  if (definition.kind === 'trait') {
    const { value } = definition;
    const section = traitSection(value, keep);
    return { key, allowPlaceholders, kind: 'trait', value, section, traits: traitsIn(section.moving) };
  }
  const split = factsOf(definition.when);
  const { facts, formula } = split;
  return {
    ...{ key, allowPlaceholders },
    kind: 'audience',
    facts: facts.map((fact) => askedFact(fact, keep)),
    formula,
    columns: Object.entries(definition.columns ?? {}).toSorted(),
    holdsForAll: mayHoldForAll(split),
  };
}

function sectionsOf(asked: AskedFacts): readonly Section[] {
  if (asked.kind === 'trait') return [asked.section];
  return asked.facts.flatMap(({ sections }) => sections.map(({ section }) => section));
}

const traitsOf = (asked: AskedFacts) => [...conditionTraits(asked), ...columnTraits(asked)];

function conditionTraits(asked: AskedFacts): readonly string[] {
  if (asked.kind === 'trait') return asked.traits;
  return asked.facts.flatMap(({ traits }) => traits);
}

function columnTraits(asked: AskedFacts): readonly string[] {
  return asked.kind === 'trait' ? [] : asked.columns.map(([, trait]) => trait);
}

function audiencesOf(asked: AskedFacts): readonly string[] {
  if (asked.kind === 'trait') return [];
  return asked.facts.flatMap(({ audiences }) => audiences);
}
