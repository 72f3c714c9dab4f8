import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { reset } from '../helpers/reset.ts';

/** Stands between the processes and the database, to cut their connections. */
export interface DatabaseProxy {
  readonly port: number;
  cut(): void;
  close(): Promise<void>;
}

export async function startProxy(target: number): Promise<DatabaseProxy> {
  const sockets = new Set<Socket>();
  const keep = (socket: Socket, other: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      sockets.delete(socket);
      other.destroy();
    });
  };
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1');
    keep(client, upstream);
    keep(upstream, client);
    client.pipe(upstream).pipe(client);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = () => sockets.forEach(reset);
  return {
    port: (server.address() as { port: number }).port,
    cut,
    async close() {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
