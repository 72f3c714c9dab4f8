/**
 * Checks an option for JavaScript callers: `bodyLimit: '1mb'` would be no limit, and a `lease` of '30s' would never end.
 *
 * @throws TypeError naming the option
 */
export function checkNumber(name: string, value: unknown = 1, mayBeZero = false): void {
  if (typeof value === 'number' && (value > 0 || (mayBeZero && value === 0))) return;
  throw new TypeError(`${name} is a number ${mayBeZero ? 'of 0 or more' : 'above 0'}, not ${value}`);
}
