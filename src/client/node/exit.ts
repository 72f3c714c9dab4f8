import type { Exiting } from '../platform.ts';

/** Clients with unsettled messages. All others can be garbage-collected. */
const pending = new Set<Exiting>();

const onBeforeExit = () => {
  for (const client of pending) void client.finish();
  // One more pass of the event loop, then Node emits this again: a settled message may lead to new ones.
  setImmediate(() => {});
};

const onExit = () => {
  for (const client of pending) client.abandon();
};

/** Calls `finish` when the event loop runs empty and `abandon` when the process exits, until {@link unguard}. */
export function guard(client: Exiting): void {
  if (pending.size === 0) {
    process.on('beforeExit', onBeforeExit);
    process.on('exit', onExit);
  }
  pending.add(client);
}

/** The client has nothing queued any more. */
export function unguard(client: Exiting): void {
  if (!pending.delete(client) || pending.size > 0) return;
  process.off('beforeExit', onBeforeExit);
  process.off('exit', onExit);
}
