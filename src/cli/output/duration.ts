import ms from 'ms';

/** `40ms`, `5s`, `2h`: whole numbers of the largest unit. */
export function duration(milliseconds: number): string {
  return ms(Math.round(milliseconds));
}
