import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import type { Answer } from './arbitrary.ts';

/** An endpoint, by itself on its port, that gives every connection one answer; it knows no HTTP. */
export class Hostile {
  readonly url: string;
  readonly sockets = new Set<Socket>();
  private readonly server: Server;

  private constructor(server: Server, answer: Answer) {
    this.server = server;
    this.url = `http://127.0.0.1:${(server.address() as { port: number }).port}/`;
    server.on('connection', (socket) => {
      this.sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => {}).on('close', () => this.sockets.delete(socket));
      if (answer.on === 'connect') void perform(socket.resume(), answer);
      else socket.once('data', () => void perform(socket.resume(), answer));
    });
  }

  static async start(answer: Answer): Promise<Hostile> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Hostile(server, answer);
  }

  close(): void {
    this.server.close();
    for (const socket of this.sockets) socket.destroy();
  }
}

async function perform(socket: Socket, { parts, end }: Answer): Promise<void> {
  for (const part of parts) {
    if (socket.destroyed) return;
    if (!socket.write(part)) await Promise.race([once(socket, 'drain'), once(socket, 'close')]).catch(() => {});
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (end === 'fin') socket.end();
  else if (end === 'reset') socket.resetAndDestroy();
}
