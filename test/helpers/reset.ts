import type { Socket } from 'node:net';

/**
 * Cuts a connection off with a reset. One that is just ending is closed: Node fails to reset it, never closes its handle, and then
 * turns in circles where the process should end.
 */
export function reset(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}
