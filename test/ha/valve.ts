import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { reset } from '../helpers/reset.ts';

/** A way to a server that can be cut: then nothing passes, nobody is told, and new connections get no answer. */
export interface Valve {
  readonly port: number;
  cut(): void;
  /** Connections from before are reset, as by a host that knows nothing of them. */
  restore(): void;
  close(): Promise<void>;
}

export async function openValve(target: number): Promise<Valve> {
  const sockets = new Set<Socket>();
  let isCut = false;
  const keep = (socket: Socket, other: () => Socket | null) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      sockets.delete(socket);
      // A connection that is cut off does not hear of it.
      if (!isCut) other()?.destroy();
    });
  };
  const server = createServer({ allowHalfOpen: false }, (client) => {
    if (isCut) {
      keep(client, () => null);
      client.pause();
      return;
    }
    const upstream = connect(target, '127.0.0.1');
    keep(client, () => upstream);
    keep(upstream, () => client);
    client.pipe(upstream).pipe(client);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const resetAll = () => sockets.forEach(reset);
  return {
    port: (server.address() as { port: number }).port,
    cut() {
      isCut = true;
      for (const socket of sockets) {
        socket.unpipe();
        socket.pause();
      }
    },
    restore() {
      isCut = false;
      resetAll();
    },
    async close() {
      resetAll();
      server.close();
      await once(server, 'close');
    },
  };
}
