import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** New connections that are let in before those that are there already have their turn. */
const AT_A_TIME = 4;
const ignore = () => {};

/**
 * Lets new connections in a few at a time, by address in turn. Hundreds that come at once would else be served in one go,
 * while whoever has long been connected waits for all of them.
 */
export class Arrivals {
  private readonly server: Server;
  private readonly serve: readonly ((socket: Socket) => void)[];
  /** By address, the one whose turn is next first. */
  private readonly waiting = new Map<string, Set<Socket>>();
  private scheduled = false;

  /**
   * Takes the place of what the server does with a connection.
   *
   * @param onArrival - called at once with each that comes
   */
  constructor(server: Server, onArrival: (socket: Socket) => void) {
    this.server = server;
    this.serve = server.listeners('connection') as ((socket: Socket) => void)[];
    server.removeAllListeners('connection');
    // Nothing is read of who waits. It is an option of a `net.Server`, which `http.createServer` does not pass on.
    Object.assign(server, { pauseOnConnect: true });
    server.on('connection', (socket) => {
      onArrival(socket);
      this.arrive(socket);
    });
  }

  private arrive(socket: Socket): void {
    socket.on('error', ignore);
    const address = socket.remoteAddress ?? '';
    const queue = this.waiting.get(address);
    if (queue) queue.add(socket);
    else this.waiting.set(address, new Set([socket]));
    this.schedule();
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      for (let count = 0; count < AT_A_TIME && this.waiting.size > 0; ) if (this.next()) count += 1;
      if (this.waiting.size > 0) this.schedule();
    });
  }

  /** False when who came has left meanwhile. */
  private next(): boolean {
    const [[address, queue] = ['', new Set<Socket>()]] = this.waiting;
    const [socket] = queue;
    this.waiting.delete(address);
    if (socket) queue.delete(socket);
    if (queue.size > 0) this.waiting.set(address, queue);
    if (!socket || socket.destroyed) return false;
    // Nobody would end it.
    if (!this.server.listening) socket.destroy();
    else this.letIn(socket);
    return true;
  }

  private letIn(socket: Socket): void {
    for (const listener of this.serve) listener.call(this.server, socket);
    socket.off('error', ignore);
    socket.resume();
  }
}
