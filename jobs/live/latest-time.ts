/** Clocks of a fleet differ by less, in milliseconds. A time further ahead is from a wrong clock. */
const AHEAD = 60_000;

export const isAhead = (at: number, wall: number) => at > wall + AHEAD;

/** The latest of these times, without those ahead of the clock. */
export function latest(wall: number, others: Iterable<number>): number {
  let found = wall;
  for (const at of others) if (at > found && !isAhead(at, wall)) found = at;
  return found;
}
