/**
 * Many who ask the same at once have one answer. Who asks while it is being looked up shares the next, so that nobody gets what was
 * so before they asked.
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
