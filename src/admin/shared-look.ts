/**
 * Share one read among simultaneous callers. Callers during a read share the next one, so that none gets data from before
 * their call.
 */
export function sharedLook<T>(look: () => Promise<T>): () => Promise<T> {
  let current: Promise<T> | null = null;
  let next: Promise<T> | null = null;
  const begin = () => {
    next = null;
    current = look().finally(() => {
      current = null;
    });
    return current;
  };
  return () => {
    if (current === null) return begin();
    next ??= current.then(begin, begin);
    return next;
  };
}
