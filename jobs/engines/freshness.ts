/** The most that local times without a zone are ahead of UTC. Clocks of sources differ by much less. */
const AHEAD = 14 * 60 * 60_000;

/** The latest credible time in a source. Later ones, such as 9999-12-31, say nothing about its age. */
export function latestKnown(asOf: number): number {
  return asOf + AHEAD;
}
