/** The audience that all members run by schedule: half of its users enter, and half leave, with every odd number of seconds. */
export const PARITY = { key: 'parity', users: 20, /** Who are deleted meanwhile. */ victims: 60, every: 1_000 };

export function isMember(n: number, asOf: number): boolean {
  return (n + Math.floor(asOf / 1_000)) % 2 === 0;
}
