import { RollcallError } from '../../src/kernel/errors.ts';
import { type ErasedIds, type IdSets, idSets } from '../../src/store/deleted-ids.ts';
import type { LiveRow, LiveState } from '../../src/store/live.ts';
import {
  anonymousRaw,
  idOf,
  isUser,
  type Link,
  personOf,
  type RawId,
  readLinks,
  userRaw,
  writeLinks,
} from './identity.ts';
import { nothingKept, writeKept } from './kept.ts';

type ForgettingState = Pick<
  LiveState,
  'allStates' | 'rowsOfIds' | 'rowsOfPersons' | 'sharedRows' | 'rewriteRows' | 'renewStates'
>;

const PAGE = 2_000;
/** Tries to rewrite rows that steps keep changing. */
const TRIES = 20;

/**
 * Removes from kept state what the log has erased before. Rebuilds it if it can't tell: for some sources only, as it
 * doesn't record them, if others have aliases of the deleted ids, and if these people were active in the meantime.
 */
export async function forgetKept(
  { live }: { readonly live: LiveState },
  ids: ErasedIds,
  sources: readonly string[] | null,
  haveReturned: () => Promise<boolean>,
): Promise<void> {
  const audiences = (await live.audiences()).filter(({ source }) => sources?.includes(source) ?? true);
  await live.forgetUsers(
    ids.users,
    audiences.map(({ key }) => key),
  );
  const states = await live.allStates();
  if (states.length === 0) return;
  if (sources === null) for (const { state } of states) await forgetIn(live, state, ids);
  if (sources !== null || (await haveReturned())) await live.renewStates(null);
}

/** Others keep their facts. Only a device that belonged to a deleted user by an alias may move to another person. */
export async function forgetIn(live: ForgettingState, state: number, ids: ErasedIds): Promise<void> {
  // A step under way may have read what the log has lost since: it is taken again.
  await live.rewriteRows(state, [], [], []);
  for (let left = TRIES; ; left -= 1) {
    try {
      return await forgetOnce(live, state, ids);
    } catch (error) {
      if (!(error instanceof RollcallError && error.code === 'live_moved') || left === 0) throw error;
    }
  }
}

async function forgetOnce(live: ForgettingState, state: number, ids: ErasedIds): Promise<void> {
  const gone = idSets(ids);
  const own = await live.rowsOfIds(state, [...ids.users.map(userRaw), ...ids.anonymous.map(anonymousRaw)]);
  // First, since a request that is repeated after a crash may not find these rows.
  if (own.some(({ raw, links }) => isNamedByOthers(raw, readLinks(links), gone))) await live.renewStates(null);
  const persons = new Set(own.flatMap(({ person }) => person ?? []));
  // A deleted user without events of their own may have rows of other ids only.
  const near = await live.rowsOfPersons(state, [...new Set([...ids.users, ...persons])]);
  const others = [...near, ...(await sharedRows(live, state, gone))].filter(({ raw }) => !isGone(raw, gone));
  const left = new Map(
    others.map((row) => [row.raw, { ...row, links: writeLinks(linksLeft(readLinks(row.links), gone)) }]),
  );
  await settle(live, state, left, gone);
  // The persons who lose ids are due now, by the rows that have their due times.
  for (const person of persons) {
    if (gone.users.has(person)) continue;
    const raw = userRaw(person);
    const row = left.get(raw) ?? { raw, person, oldest: null, kept: writeKept(nothingKept()), links: '[]' };
    left.set(raw, { ...row, due: FORGOTTEN });
  }
  const isEmpty = ({ raw, person, kept, links, due }: LiveRow) =>
    kept === '{}' && links === '[]' && due === null && person === (isUser(raw) ? idOf(raw) : null);
  const empty = [...left.values()].filter(isEmpty);
  await live.rewriteRows(
    state,
    others,
    [...left.values()].filter((row) => !empty.includes(row)),
    [...own, ...empty].map(({ raw }) => raw),
  );
}

/** Finds the persons of rows that belonged to a deleted one, by the links that are left. */
async function settle(live: ForgettingState, state: number, left: Map<RawId, LiveRow>, gone: IdSets): Promise<void> {
  const lost = [...left.values()].filter(({ person }) => person !== null && gone.users.has(person));
  if (lost.length === 0) return;
  const users = lost.flatMap(({ links }) => readLinks(links).map(([user]) => user));
  const named = await live.rowsOfIds(state, users.map(userRaw));
  const around = await live.rowsOfPersons(
    state,
    named.flatMap(({ person }) => person ?? []),
  );
  const known = new Map([...named, ...around].map((row) => [row.raw, row]));
  const linksOf = (raw: RawId) => linksLeft(readLinks((left.get(raw) ?? known.get(raw))?.links ?? '[]'), gone);
  for (const row of lost) left.set(row.raw, { ...row, person: personOf(row.raw, linksOf) });
}

/** Due since 1970: a deletion changed what is kept of a person. */
export const FORGOTTEN = 0;

/** Rows of ids that are linked to several users, one of whom is forgotten. */
async function sharedRows(live: ForgettingState, state: number, gone: IdSets): Promise<readonly LiveRow[]> {
  const found: LiveRow[] = [];
  for (let after: string | undefined = ''; after !== undefined; ) {
    const page: readonly LiveRow[] = await live.sharedRows(state, after, PAGE);
    found.push(...page.filter(({ links }) => readLinks(links).some(([user]) => gone.users.has(user))));
    after = page.at(-1)?.raw;
  }
  return found;
}

export const isGone = (raw: RawId, { users, anonymous }: IdSets): boolean =>
  (isUser(raw) ? users : anonymous).has(idOf(raw));

/**
 * True if somebody who stays may have an alias of a deleted id. The log keeps it if the id stays in its other role, and
 * otherwise loses it as an event of theirs: links alone don't tell.
 */
export const isNamedByOthers = (raw: RawId, links: readonly Link[], gone: IdSets): boolean =>
  (isUser(raw) || !gone.users.has(idOf(raw))) && linksLeft(links, gone).length > 0;

export const linksLeft = (links: readonly Link[], { users }: IdSets): Link[] =>
  links.filter(([user]) => !users.has(user));
