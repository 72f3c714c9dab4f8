/**
 * A delivery's rank: its lane (0 to 2), plus 3 once it was tried, plus 6 when it comes back into the line. Then it
 * stands before the others of its kind.
 */
export const RANKS = 12;
const AGAIN = 6;

/** SQL for the rank in which a delivery comes back. */
export const again = (rank: string) => `${rank} % ${AGAIN} + ${AGAIN}`;

const ORDERS = { usual: [0, 1, 2, 3, 4, 5], retries: [3, 4, 5, 0, 1, 2], backfills: [2, 0, 1, 3, 4, 5] } as const;

/** The ranks in the order in which a claim takes them. */
export const ranksOf = (order: keyof typeof ORDERS): readonly number[] =>
  ORDERS[order].flatMap((rank) => [rank + AGAIN, rank]);

export const isAgain = (rank: number): boolean => rank >= AGAIN;
export const isRetry = (rank: number): boolean => rank % AGAIN > 2;

export const ALL = Array.from({ length: RANKS }, (_, rank) => rank);
export const UNTRIED = ALL.filter((rank) => !isRetry(rank));
export const TRIED = ALL.filter(isRetry);

/** SQL for an array of ranks. */
export const rankArray = (ranks: readonly number[]) => `'{${ranks.join(',')}}'::smallint[]`;
export const ALL_RANKS = rankArray(ALL);
