/**
 * Ids to erase, by the role in which they occur. An id may be one person's user id and another's anonymous id. An id in
 * both lists has no role left, and aliases of it are erased too.
 */
export interface ErasedIds {
  readonly users: readonly string[];
  readonly anonymous: readonly string[];
}

/** The ids of a deletion, resolved once, before anything is erased. */
export interface DeletedIds extends ErasedIds {
  /** The named users and their former ids, in this order: they get notices. */
  readonly notified: readonly string[];
  /** For each of those the named user to whom it belongs. */
  readonly named: readonly string[];
}

type StatedLink = readonly [id: string, user: string];

/** Links between ids, as the messages of the log or the kept ones state them. */
export interface IdentityLinks {
  /** The latest alias of each id, oldest first, without aliases of an id to itself. */
  aliases(): Promise<readonly StatedLink[]>;
  /** Anonymous ids with the user of their first link: of those that are among these ids, or belong to one of them. */
  owners(ids: readonly string[]): Promise<readonly StatedLink[]>;
  /** Those of these ids that messages name as user ids, and as anonymous ids. */
  uses(
    ids: readonly string[],
  ): Promise<{ readonly users: ReadonlySet<string>; readonly anonymous: ReadonlySet<string> }>;
}

/** Resolves the ids of several deletions. */
export async function resolveIds(
  links: IdentityLinks,
  deletions: readonly (readonly string[])[],
): Promise<readonly DeletedIds[]> {
  const formerOf = Map.groupBy(deciding(await links.aliases()), ([, user]) => user);
  const resolved: DeletedIds[] = [];
  for (const named of deletions) {
    const aliased = new Map(named.map((id) => [id, id]));
    // The loop also visits ids that it adds.
    for (const [id, root] of aliased) {
      for (const [former] of formerOf.get(id) ?? []) if (!aliased.has(former)) aliased.set(former, root);
    }
    const owners = new Map(await links.owners([...aliased.keys()]));
    const uses = await links.uses([...aliased.keys(), ...owners.keys()]);
    // An alias may name a device: an id is a user's unless messages name it as an anonymous id only.
    const isUser = (id: string) => uses.users.has(id) || !uses.anonymous.has(id);
    const users = new Map([...aliased].filter(([id, root]) => id === root || isUser(id)));
    const anonymous = [...uses.anonymous].filter((id) => users.has(owners.get(id) ?? id));
    resolved.push({ ...byRole([...users.keys()], anonymous, uses), named: [...users.values()] });
  }
  return resolved;
}

/** Adds each id to the other list too, unless somebody who stays uses it in that role. */
function byRole(
  users: readonly string[],
  anonymous: readonly string[],
  uses: { readonly users: ReadonlySet<string>; readonly anonymous: ReadonlySet<string> },
): Omit<DeletedIds, 'named'> {
  return {
    notified: users,
    users: [...new Set([...users, ...anonymous.filter((id) => !uses.users.has(id))])],
    anonymous: [...new Set([...anonymous, ...users.filter((id) => !uses.anonymous.has(id))])],
  };
}

/** All but the aliases that lead away from where a circle ends, which is the user of its latest alias. */
function deciding(aliases: readonly StatedLink[]): readonly StatedLink[] {
  const next = new Map(aliases.map(([former, user], place) => [former, { user, place }]));
  const seen = new Set<string>();
  for (const [start] of aliases) {
    const way: string[] = [];
    let at = start;
    for (let step = next.get(at); step && !seen.has(at); step = next.get(at)) {
      seen.add(at);
      way.push(at);
      at = step.user;
    }
    const begin = way.indexOf(at);
    if (begin < 0) continue;
    const latest = way
      .slice(begin)
      .flatMap((id) => next.get(id) ?? [])
      .reduce((one, other) => (other.place > one.place ? other : one));
    next.delete(latest.user);
  }
  return [...next].map(([former, { user }]) => [former, user]);
}

/** The links of two places. For an id that both link, the first one decides. */
export function linksOfBoth(first: IdentityLinks, second: IdentityLinks): IdentityLinks {
  const merged = async (links: (of: IdentityLinks) => Promise<readonly StatedLink[]>) => {
    const own = await links(first);
    const linked = new Set(own.map(([id]) => id));
    return [...(await links(second)).filter(([id]) => !linked.has(id)), ...own];
  };
  return {
    aliases: () => merged((of) => of.aliases()),
    owners: (ids) => merged((of) => of.owners(ids)),
    async uses(ids) {
      const [one, other] = [await first.uses(ids), await second.uses(ids)];
      return {
        users: new Set([...one.users, ...other.users]),
        anonymous: new Set([...one.anonymous, ...other.anonymous]),
      };
    },
  };
}

/** The ids in a form for hashes, which keeps the roles apart: no id contains NUL. */
export const hashedForms = ({ users, anonymous }: ErasedIds): readonly string[] => [
  ...users,
  ...anonymous.map(anonymousForm),
];

export const anonymousForm = (id: string): string => `\0${id}`;

/** Ids to look up quickly, by role. */
export interface IdSets {
  readonly users: ReadonlySet<string>;
  readonly anonymous: ReadonlySet<string>;
}

export const idSets = ({ users, anonymous }: ErasedIds): IdSets => ({
  users: new Set(users),
  anonymous: new Set(anonymous),
});

interface NamedIds {
  readonly type?: unknown;
  readonly userId?: string;
  readonly 'User ID'?: string;
  readonly anonymousId?: string;
  readonly 'Previous ID'?: string;
}

/** A message's body without deleted ids: without the anonymous id if the person stays, null if nothing may be left. */
export function bodyWithout(body: string, { users, anonymous }: IdSets): string | null {
  const said = JSON.parse(body) as NamedIds;
  const user = said.userId ?? said['User ID'];
  if (user !== undefined && users.has(user)) return null;
  const former = said.type === 'alias' ? (said['Previous ID'] ?? '') : '';
  if (users.has(former) && anonymous.has(former)) return null;
  const { anonymousId, ...rest } = said;
  if (anonymousId === undefined || !anonymous.has(anonymousId)) return body;
  return user === undefined ? null : JSON.stringify(rest);
}
