/**
 * Estimate a percentile from the counts of a histogram; null if it is empty.
 *
 * @param counts - one for each bound, and one for values beyond the last, which count as the last bound
 * @param part - between 0 and 1
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
