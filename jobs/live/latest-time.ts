/** Clocks of a fleet differ by less, in milliseconds: a time that is further ahead was told by a clock that was wrong. */
const AHEAD = 60_000;

export const isAhead = (at: number, wall: number) => at > wall + AHEAD;

/** The latest of these, but for those that are ahead of the clock. */
export function latest(wall: number, others: Iterable<number>): number {
  let found = wall;
  for (const at of others) if (at > found && !isAhead(at, wall)) found = at;
  return found;
}
