/** Thrown to end a stream of which enough has come. */
const ENOUGH = Symbol('enough');

/** The first rows of what is handed over in batches. */
export async function firstOf<T>(
  limit: number,
  stream: (each: (batch: readonly T[]) => Promise<void>) => Promise<void>,
): Promise<readonly T[]> {
  const found: T[] = [];
  await stream(async (batch) => {
    found.push(...batch.slice(0, limit - found.length));
    if (found.length >= limit) throw ENOUGH;
  }).catch((error) => {
    if (error !== ENOUGH) throw error;
  });
  return found;
}
