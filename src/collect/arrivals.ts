import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Requests on connections that have shown a write key, and on others, that are served before everything else has its turn. */
const KNOWN_AT_A_TIME = 64;
const NEW_AT_A_TIME = 1;
/** Connections of newcomers that are read again in each turn: on most, nothing has come. */
const READ_AT_A_TIME = 4;

interface Arrival {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

interface Newcomers {
  /** Connections that have shown no write key. */
  readonly sockets: Iterable<Socket>;
  isKnown(socket: Socket): boolean;
}

/**
 * Serves requests a few at a time. Of hundreds of connections on which something has come, Node would read and serve one after the
 * other without looking at anything else: neither at answers of the store, nor at what has come meanwhile. Who has shown a write
 * key does not wait for those who have not.
 */
export class Arrivals {
  private readonly server: Server;
  private readonly serve: readonly RequestListener[];
  private readonly newcomers: Newcomers;
  private readonly known = new Line<Arrival>(KNOWN_AT_A_TIME);
  private readonly others = new Line<Arrival>(NEW_AT_A_TIME);
  /** Connections without a request that nothing is read of. */
  private readonly unread = new Line<Socket>(READ_AT_A_TIME);
  /** Connections on which a request waits. */
  private readonly waiting = new WeakSet<Socket>();
  private unpaused: Socket[] = [];
  private scheduled = false;

  /** Takes the place of what the server does with a request. */
  constructor(server: Server, newcomers: Newcomers) {
    this.server = server;
    this.newcomers = newcomers;
    this.serve = server.listeners('request') as RequestListener[];
    server.removeAllListeners('request');
    server.on('request', (request, response) => this.arrive({ request, response }));
  }

  private arrive(arrival: Arrival): void {
    const { socket } = arrival.request;
    const isKnown = this.newcomers.isKnown(socket);
    const line = isKnown ? this.known : this.others;
    this.schedule();
    if (line.mayPass()) {
      this.letIn(arrival);
      return;
    }
    line.wait(socket.remoteAddress ?? '', arrival);
    this.waiting.add(socket);
    this.unpaused.push(socket);
    if (!isKnown) this.holdNewcomers();
  }

  /** Nothing more is read of newcomers in this turn: to read hundreds of requests takes as long as to serve them. */
  private holdNewcomers(): void {
    for (const socket of this.newcomers.sockets) {
      if (socket.isPaused() || this.waiting.has(socket)) continue;
      socket.pause();
      this.unread.wait(socket.remoteAddress ?? '', socket);
    }
  }

  /** At the end of this turn of the event loop, before anything more is read. */
  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      // Nothing more is read of who waits, its end neither: a connection that ends takes with it what nobody has looked at.
      for (const socket of this.unpaused) socket.pause();
      this.unpaused = [];
      for (const line of [this.known, this.others]) {
        for (const arrival of line.begin(({ request }) => request.destroyed)) {
          const { socket } = arrival.request;
          this.waiting.delete(socket);
          socket.resume();
          this.letIn(arrival);
        }
      }
      for (const socket of this.unread.begin(({ destroyed }) => destroyed)) socket.resume();
      if ([this.known, this.others, this.unread].some(({ isWaiting }) => isWaiting)) this.schedule();
    });
  }

  private letIn({ request, response }: Arrival): void {
    for (const listener of this.serve) listener.call(this.server, request, response);
  }
}

/** Lets a limited number pass in each turn of the event loop, one address after the other. */
class Line<T> {
  private readonly limit: number;
  private passed = 0;
  /** By address, the one whose turn is next first. */
  private readonly waiting = new Map<string, T[]>();

  constructor(limit: number) {
    this.limit = limit;
  }

  get isWaiting(): boolean {
    return this.waiting.size > 0;
  }

  mayPass(): boolean {
    if (this.passed >= this.limit || this.isWaiting) return false;
    this.passed += 1;
    return true;
  }

  wait(address: string, one: T): void {
    const queue = this.waiting.get(address);
    if (queue) queue.push(one);
    else this.waiting.set(address, [one]);
  }

  /** Those whose turn it is. */
  begin(isGone: (one: T) => boolean): readonly T[] {
    this.passed = 0;
    const next: T[] = [];
    for (const [address, queue] of this.waiting) {
      if (this.passed === this.limit) break;
      const one = queue.shift() as T;
      this.waiting.delete(address);
      if (queue.length > 0) this.waiting.set(address, queue);
      if (isGone(one)) continue;
      this.passed += 1;
      next.push(one);
    }
    return next;
  }
}
