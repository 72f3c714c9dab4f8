import chunk from 'lodash/chunk.js';
import { RollcallError } from '../../src/kernel/errors.ts';
import {
  deletes,
  type RegulationStatus,
  type RegulationType,
  type RunFilter,
  type Store,
} from '../../src/store/port.ts';
import { type Computation, computations, conflictKeys, type SyncConfig } from '../audience-or-trait.ts';
import type { ReadEngine } from '../open-engines.ts';
import { createSubjects } from '../run/audience-subjects.ts';
import type { Subject } from '../run/run-context.ts';
import { type Story, type StoryChange, type StoryParts, tellStory } from './why.ts';

/** One person in every audience and trait. */
export interface Person {
  readonly user: string;
  /** Milliseconds since 1970, for a time in the past. */
  readonly asOf: number | null;
  readonly memberships: readonly PersonMembership[];
  /** Engines that did not answer, whose audiences are missing. */
  readonly failures: readonly { readonly engine: string; readonly code: string; readonly message: string }[];
  readonly deletion: PersonDeletion;
}

export interface PersonMembership extends Pick<Story, 'key' | 'member' | 'value'> {
  readonly kind: 'audience' | 'trait';
  /** Null if it is no longer configured. */
  readonly name: string | null;
  /** The change that made it so, and what destinations were told of it; null if there was none, or it is not known. */
  readonly change: StoryChange | null;
}

interface PersonDeletion {
  /** Sources whose messages of this user are not taken. */
  readonly suppressed: readonly string[];
  /** Requests that are not over. Later their ids are kept as hashes only. */
  readonly requests: readonly {
    readonly id: string;
    readonly type: RegulationType;
    readonly status: RegulationStatus;
    readonly createdAt: number;
  }[];
}

interface PersonParts {
  readonly store: Store;
  readonly config: () => SyncConfig;
  readonly look: ReadEngine;
}

const RECENT = 1_000;
/** Questions to the store at once: it has other things to do. */
const AT_ONCE = 20;

async function inParts<T, R>(all: readonly T[], size: number, ask: (each: T) => Promise<R>): Promise<readonly R[]> {
  const answers: R[] = [];
  for (const some of chunk(all, size)) answers.push(...(await Promise.all(some.map(ask))));
  return answers;
}

export async function tellPerson(
  parts: PersonParts,
  user: string,
  asOf: number | null,
  signal: AbortSignal | undefined,
): Promise<Person> {
  const { store, config, look } = parts;
  const configured = new Map(computations(config()).map((each) => [each.key, each]));
  // Records that all audiences share are read once, and the store is asked while the engines are: each turn takes a moment.
  const records = store.audiences();
  const shared = {
    audiences: () => records,
    audience: async (key: string) => (await records).find((record) => record.key === key) ?? null,
    runs: (filter: RunFilter) => store.runs(filter),
  };
  const all = await createSubjects(shared, config).everyone();
  const attempts = store.attempts({ userId: user, limit: RECENT });
  const letters = store.deadLetters({ conflicts: all.flatMap(({ key }) => conflictKeys(key, user)), limit: RECENT });
  const known: StoryParts['store'] = {
    ...shared,
    attempts: () => attempts,
    deadLetters: async ({ conflicts }) => (await letters).filter(({ conflict }) => conflicts?.includes(conflict ?? '')),
  };
  const failures: Person['failures'][number][] = [];
  const ofEngine = async ([name, theirs]: readonly [string, readonly Subject[]]): Promise<
    readonly PersonMembership[]
  > => {
    try {
      return await look(
        name,
        async (engine) => {
          const keys = theirs.map(({ key }) => key);
          const everywhere = await engine.everywhere?.(keys, user);
          const tell = async (subject: Subject) => {
            const about = { store: known, engine, subject, config, found: everywhere?.get(subject.key) };
            const story = await tellStory(about, user, asOf, true);
            return membershipOf(subject, configured.get(subject.key)?.name ?? null, story);
          };
          return inParts(theirs, everywhere ? AT_ONCE : 1, tell);
        },
        signal,
      );
    } catch (error) {
      if (!(error instanceof RollcallError) || signal?.aborted) throw error;
      failures.push({ engine: name, code: error.code, message: error.message });
      return [];
    }
  };
  const [deletion, found] = await Promise.all([
    deletionOf(store, config(), user),
    Promise.all([...Map.groupBy(all, ({ engine }) => engine)].map(ofEngine)),
    attempts,
    letters,
  ]);
  const place = new Map(all.map(({ key }, index) => [key, index]));
  const memberships = found.flat().toSorted((a, b) => (place.get(a.key) ?? 0) - (place.get(b.key) ?? 0));
  return { user, asOf, memberships, failures, deletion };
}

function membershipOf(
  { key, kind }: Subject,
  name: string | null,
  { member, value, changes }: Story,
): PersonMembership {
  const change = changes.findLast((each) => each.change !== 'sent again') ?? null;
  return { key, kind, name, member, value, change };
}

const sourceOf = ({ source }: Computation) => source;

async function deletionOf(store: Store, config: SyncConfig, user: string): Promise<PersonDeletion> {
  const sources = new Set([
    ...config.destinations.flatMap(({ sources }) => sources),
    ...computations(config).map(sourceOf),
  ]);
  const isSuppressed = async (id: string) =>
    (await store.excluded([user], id, Number.MAX_SAFE_INTEGER)).length > 0 ? [id] : [];
  const [suppressed, open] = await Promise.all([inParts([...sources], AT_ONCE, isSuppressed), store.openRegulations()]);
  const requests = open
    .filter(({ type, userIds }) => deletes(type) && userIds.includes(user))
    .map(({ id, type, status, createdAt }) => ({ id, type, status, createdAt }));
  return { suppressed: suppressed.flat(), requests };
}
