/**
 * Return these users with all ids aliased to them, over any number of steps. Deleting a person must not leave another
 * one, made of events under former ids.
 *
 * @param aliases - pairs of a former id and the id that replaced it
 */
export function personOf(
  users: readonly string[],
  aliases: readonly (readonly [former: string, user: string])[],
): ReadonlySet<string> {
  const formerOf = Map.groupBy(aliases, ([, user]) => user);
  const ids = new Set(users);
  // The loop also visits ids that it adds.
  for (const id of ids) for (const [former] of formerOf.get(id) ?? []) ids.add(former);
  return ids;
}
