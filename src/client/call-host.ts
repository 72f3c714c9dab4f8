/** Calls what is the host's: whatever it throws, or rejects with later, must not stop the client, or end the process. */
export function callHost(call: () => unknown, failed: (error: unknown) => void): void {
  try {
    const given = call();
    if (given instanceof Promise) given.catch(failed);
  } catch (error) {
    failed(error);
  }
}
