import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Requests on connections that have shown a write key, and on others, that are served before everything else has its turn. */
const KNOWN_AT_A_TIME = 64;
const NEW_AT_A_TIME = 1;

interface Arrival {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/**
 * Serves requests a few at a time. Of hundreds of connections on which something has come, Node would serve one after the other
 * without looking at anything else: neither at answers of the store, nor at what has come meanwhile. Who has shown a write key
 * does not wait for those who have not.
 */
export class Arrivals {
  private readonly server: Server;
  private readonly serve: readonly RequestListener[];
  private readonly isKnown: (socket: Socket) => boolean;
  private readonly known = new Line(KNOWN_AT_A_TIME);
  private readonly others = new Line(NEW_AT_A_TIME);
  private scheduled = false;

  /** Takes the place of what the server does with a request. */
  constructor(server: Server, isKnown: (socket: Socket) => boolean) {
    this.server = server;
    this.isKnown = isKnown;
    this.serve = server.listeners('request') as RequestListener[];
    server.removeAllListeners('request');
    server.on('request', (request, response) => this.arrive({ request, response }));
  }

  private arrive(arrival: Arrival): void {
    const { socket } = arrival.request;
    const line = this.isKnown(socket) ? this.known : this.others;
    this.schedule();
    if (line.mayPass()) this.letIn(arrival);
    else line.wait(socket.remoteAddress ?? '', arrival);
  }

  /** At the end of this turn of the event loop, before anything more is read. */
  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      for (const line of [this.known, this.others]) {
        for (const arrival of line.begin()) {
          arrival.request.socket.resume();
          this.letIn(arrival);
        }
      }
      if (this.known.isWaiting || this.others.isWaiting) this.schedule();
    });
  }

  private letIn({ request, response }: Arrival): void {
    for (const listener of this.serve) listener.call(this.server, request, response);
  }
}

/** Lets a limited number pass in each turn of the event loop, one address after the other. */
class Line {
  private readonly limit: number;
  private passed = 0;
  /** By address, the one whose turn is next first. */
  private readonly waiting = new Map<string, Arrival[]>();
  private unpaused: Arrival[] = [];

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

  wait(address: string, arrival: Arrival): void {
    const queue = this.waiting.get(address);
    if (queue) queue.push(arrival);
    else this.waiting.set(address, [arrival]);
    this.unpaused.push(arrival);
  }

  /** Those whose turn it is. */
  begin(): readonly Arrival[] {
    this.passed = 0;
    // Nothing more is read of who waits, its end neither: a connection that ends takes with it what nobody has looked at.
    for (const { request } of this.unpaused) request.socket.pause();
    this.unpaused = [];
    const next: Arrival[] = [];
    for (const [address, queue] of this.waiting) {
      if (this.passed === this.limit) break;
      const arrival = queue.shift() as Arrival;
      this.waiting.delete(address);
      if (queue.length > 0) this.waiting.set(address, queue);
      if (arrival.request.destroyed) continue;
      this.passed += 1;
      next.push(arrival);
    }
    return next;
  }
}
