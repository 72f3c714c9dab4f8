/** How often work that goes on is interrupted again, in milliseconds: some phases don't listen. */
const INSIST_EVERY = 500;

/** Does the work, which is interrupted until it ends once the signal aborts. Then it rejects with the signal's reason. */
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
