/**
 * A delivery's turn: its lane (0 to 2), plus 3 once it was tried, plus 6 when it comes back into the line, in which it then
 * stands before the others of its kind.
 */
export const TURNS = 12;
const AGAIN = 6;

/** SQL for the turn in which a delivery comes back. */
export const again = (turn: string) => `${turn} % ${AGAIN} + ${AGAIN}`;

const ORDERS = { usual: [0, 1, 2, 3, 4, 5], retries: [3, 4, 5, 0, 1, 2], backfills: [2, 0, 1, 3, 4, 5] } as const;

/** The turns in the order in which a claim takes them. */
export const turnsOf = (order: keyof typeof ORDERS): readonly number[] =>
  ORDERS[order].flatMap((turn) => [turn + AGAIN, turn]);

export const isAgain = (turn: number): boolean => turn >= AGAIN;
export const isRetry = (turn: number): boolean => turn % AGAIN > 2;

const ALL = Array.from({ length: TURNS }, (_, turn) => turn);
export const UNTRIED = ALL.filter((turn) => !isRetry(turn));
export const TRIED = ALL.filter(isRetry);

/** SQL for an array of turns. */
export const turnArray = (turns: readonly number[]) => `'{${turns.join(',')}}'::smallint[]`;
export const ALL_TURNS = turnArray(ALL);
