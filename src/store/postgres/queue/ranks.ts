import { CLAIM_ORDERS } from '../../states.ts';

/** Number of ranks: those of `CLAIM_ORDERS`, plus 6 for a returned delivery, which precedes others of its kind. */
export const RANKS = 12;
const AGAIN = 6;

/** SQL for the rank of a returned delivery. */
export const again = (rank: string) => `${rank} % ${AGAIN} + ${AGAIN}`;

export const ranksOf = (order: keyof typeof CLAIM_ORDERS): readonly number[] =>
  CLAIM_ORDERS[order].flatMap((rank) => [rank + AGAIN, rank]);

export const isAgain = (rank: number): boolean => rank >= AGAIN;
export const isRetry = (rank: number): boolean => rank % AGAIN > 2;

export const ALL = Array.from({ length: RANKS }, (_, rank) => rank);
export const UNTRIED = ALL.filter((rank) => !isRetry(rank));
export const TRIED = ALL.filter(isRetry);

export const rankArray = (ranks: readonly number[]) => `'{${ranks.join(',')}}'::smallint[]`;
export const ALL_RANKS = rankArray(ALL);
