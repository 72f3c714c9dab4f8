/** A value, or the promise of one. */
export type Awaitable<T> = T | Promise<T>;

export const isThenable = <T>(value: Awaitable<T>): value is Promise<T> =>
  typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';

/**
 * Continues with a value, synchronously if it is available already. With `await` everywhere, a request with a synchronous
 * handler would pay for a dozen promises and a timer, which cost as much as its signature.
 */
export function after<T, U>(value: T, next: (value: Awaited<T>) => Awaitable<U>): Awaitable<U> {
  return isThenable(value) ? Promise.resolve(value).then(next as never) : next(value as Awaited<T>);
}
