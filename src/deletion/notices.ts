import { type Destination, isOwnSource } from '../destination.ts';
import type { Regulation, Told, ToldPage } from '../store/port.ts';

/** The part of a destination that decides about notices. It may be known to other processes only. */
export type Connected = Pick<Destination, 'name' | 'sources'>;

/** Notices from one source to the same destinations. */
interface Notices {
  readonly source: string;
  readonly to: readonly string[];
  /** Indexes into the request's `ids.notified`. */
  readonly users: readonly number[];
}

/** Group the findings by source and destination, with indexes in place of user ids. */
export function withUsers(found: ToldPage['told'], userIds: readonly string[]): readonly Told[] {
  const places = new Map(userIds.map((user, place) => [user, place]));
  const told = new Map<string, { source: string; destination: string; users: Set<number> }>();
  for (const { source, destination, user } of found) {
    const place = places.get(user);
    if (place === undefined) continue;
    const key = JSON.stringify([source, destination]);
    const known = told.get(key) ?? { source, destination, users: new Set() };
    told.set(key, known);
    known.users.add(place);
  }
  return [...told.values()].map(({ users, ...rest }) => ({ ...rest, users: [...users].sort((a, b) => a - b) }));
}

/**
 * Destinations that get notices, by source. A destination that is connected to an affected source, enabled or not, gets
 * notices of all users. One that is no longer connected or configured gets those of the users that the source sent it.
 * Alert hooks get none.
 */
export function destinationsOf(
  { sources: scope, ids, told }: Required<Pick<Regulation, 'sources' | 'ids' | 'told'>>,
  sources: readonly string[],
  destinations: readonly Connected[],
): readonly Notices[] {
  const isMeant = (source: string) => !isOwnSource(source) && (scope?.includes(source) ?? true);
  const notices: Notices[] = [];
  for (const source of new Set([...sources, ...(told ?? []).map((each) => each.source)])) {
    if (!isMeant(source)) continue;
    // A source that is no longer configured notifies only destinations that already know the user.
    const connected = destinations.filter((each) => sources.includes(source) && each.sources.includes(source));
    const names = [...new Set(connected.map(({ name }) => name))];
    const others = (told ?? []).filter((each) => each.source === source && !names.includes(each.destination));
    notices.push(...bySameDestinations(source, names, others, ids?.notified.length ?? 0));
  }
  return notices;
}

/** One message per user and source: a second one would have the same id and be dropped as a duplicate. */
function bySameDestinations(
  source: string,
  names: readonly string[],
  others: readonly Told[],
  count: number,
): Notices[] {
  const former = new Map<number, string[]>();
  for (const { destination, users } of others) {
    for (const user of users) former.set(user, [...(former.get(user) ?? []), destination]);
  }
  const groups = new Map<string, { source: string; to: readonly string[]; users: number[] }>();
  for (let user = 0; user < count; user += 1) {
    const to = [...names, ...(former.get(user) ?? [])];
    if (to.length === 0) continue;
    const key = JSON.stringify(to);
    const group = groups.get(key) ?? { source, to, users: [] };
    groups.set(key, group);
    group.users.push(user);
  }
  return [...groups.values()];
}
