/** Milliseconds between interrupts, which are repeated because some phases ignore them. */
export const INSIST_EVERY = 500;

/** Does the work. Once the signal aborts, interrupts it until it ends, and rejects with the signal's reason. */
export async function interruptedBy<T>(signal: AbortSignal, interrupt: () => void, work: () => Promise<T>): Promise<T> {
  let insisting: NodeJS.Timeout | undefined;
  const begin = () => {
    interrupt();
    insisting = setInterval(interrupt, INSIST_EVERY);
  };
  signal.throwIfAborted();
  signal.addEventListener('abort', begin, { once: true });
  try {
    return await work();
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener('abort', begin);
    clearInterval(insisting);
  }
}
