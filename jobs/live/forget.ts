import type { LiveRow, LiveState } from '../../src/store/live.ts';
import type { Store } from '../../src/store/port.ts';
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

type ForgettingState = Pick<LiveState, 'allStates' | 'rowsOfIds' | 'rowsOfPersons' | 'sharedRows' | 'rewriteRows'>;

const PAGE = 2_000;

/** Marks all kept state to be rebuilt. Until then it keeps serving. */
export const renewKept = ({ live }: Pick<Store, 'live'>): Promise<void> => live.renewStates(null);

/** Removes users from kept state as their deletion does from the log: with former ids and anonymous events. */
export async function forgetKept(live: ForgettingState, users: readonly string[]): Promise<void> {
  for (const { state } of await live.allStates()) await forgetIn(live, state, users);
}

async function forgetIn(live: ForgettingState, state: number, users: readonly string[]): Promise<void> {
  const rows = new Map<RawId, LiveRow>();
  const gone = new Set(users);
  await loadShared(live, state, gone, rows);
  for (let known = -1; known < gone.size; ) {
    known = gone.size;
    await loadPeople(live, state, [...gone], rows);
    for (const [raw, row] of rows)
      if (isUser(raw) && linksOf(row).some(([user]) => gone.has(user))) gone.add(idOf(raw));
  }
  const left = new Map<RawId, LiveRow>();
  for (const [raw, row] of rows) {
    if (isUser(raw) && gone.has(idOf(raw))) continue;
    const before = (id: RawId) => (rows.has(id) ? linksOf(rows.get(id)) : []);
    const links = linksOf(row).filter(([user]) => !gone.has(user));
    const owner = firstOf(before(raw));
    const kept = !isUser(raw) && owner !== null && gone.has(owner) ? writeKept(nothingKept()) : row.kept;
    left.set(raw, { ...row, kept, links: writeLinks(links) });
  }
  const after = (id: RawId) => linksOf(left.get(id));
  const settled = [...left.values()].map((row) => ({ ...row, person: personOf(row.raw, after) }));
  const empty = settled.filter(({ raw, kept, links }) => !isUser(raw) && kept === '{}' && links === '[]');
  const dropped = [...[...gone].map(userRaw), ...empty.map(({ raw }) => raw)];
  // Makes the remaining persons due now, by the row that has their due time.
  const rest = settled
    .filter((row) => !empty.includes(row))
    .map((row) =>
      row.person !== null && row.raw === userRaw(row.person) ? { ...row, due: 0 } : { ...row, due: null },
    );
  await live.rewriteRows(state, rest, dropped);
}

/** Ids linked to several users: the deleted one may not be the one to whom the id belongs. */
async function loadShared(
  live: ForgettingState,
  state: number,
  gone: ReadonlySet<string>,
  rows: Map<RawId, LiveRow>,
): Promise<void> {
  for (let after: string | undefined = ''; after !== undefined; ) {
    const page: readonly LiveRow[] = await live.sharedRows(state, after, PAGE);
    for (const row of page) if (linksOf(row).some(([user]) => gone.has(user))) rows.set(row.raw, row);
    after = page.at(-1)?.raw;
  }
}

/** All ids of these users, and of users with whom they share ids. */
async function loadPeople(
  live: ForgettingState,
  state: number,
  users: readonly string[],
  rows: Map<RawId, LiveRow>,
): Promise<void> {
  const own = await live.rowsOfIds(
    state,
    users.flatMap((user) => [userRaw(user), anonymousRaw(user)]),
  );
  // A person without any event that is asked for has rows of devices only.
  const persons = new Set([...users, ...[...own, ...rows.values()].flatMap(({ person }) => person ?? [])]);
  for (const row of [...own, ...(await live.rowsOfPersons(state, [...persons]))]) {
    if (!rows.has(row.raw)) rows.set(row.raw, row);
  }
}

const linksOf = (row: LiveRow | undefined): readonly Link[] => (row ? readLinks(row.links) : []);

function firstOf(links: readonly Link[]): string | null {
  return personOf('a:', (raw) => (raw === 'a:' ? links : []));
}
