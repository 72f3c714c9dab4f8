/**
 * How long the given part of them took at most, as far as the counts within bounds tell; null without any.
 *
 * @param counts - one for each bound, and one beyond the last, for which that is all that is known
 */
export function percentile(bounds: readonly number[], counts: readonly number[], part: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let left = total * part;
  for (const [place, high] of bounds.entries()) {
    const count = counts[place] ?? 0;
    const low = bounds[place - 1] ?? 0;
    if (left <= count && count > 0) return Math.round(low + (high - low) * (left / count));
    left -= count;
  }
  return bounds.at(-1) ?? null;
}
