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

/** Like {@link after} for the result of `start`. `failed` handles what it throws or rejects with. */
export function attempt<T, U>(
  start: () => Awaitable<T>,
  done: (value: T) => Awaitable<U>,
  failed: (error: unknown) => Awaitable<U>,
): Awaitable<U> {
  let result: Awaitable<T>;
  try {
    result = start();
  } catch (error) {
    return failed(error);
  }
  return isThenable(result) ? Promise.resolve(result).then(done, failed) : done(result);
}
