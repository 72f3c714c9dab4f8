/** Local times without their zone are ahead of UTC by no more; the clock of a source by much less. */
const AHEAD = 14 * 60 * 60_000;

/** The latest time that a source can have from now: later ones, such as 9999-12-31, say nothing of its age. */
export function latestKnown(asOf: number): number {
  return asOf + AHEAD;
}
