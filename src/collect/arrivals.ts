import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Requests served in each pass of the event loop: on connections that have shown a write key, and on others (newcomers).
 * First requests of newcomers do not wait for newcomers that send one request after the other.
 */
const KNOWN_AT_A_TIME = 64;
const NEW_AT_A_TIME = 1;
/** Connections of newcomers resumed in each pass of the event loop: on most, nothing has arrived. */
const READ_AT_A_TIME = 4;
/**
 * Limits for requests that wait behind another of their own connection. Few clients send one before the last is answered,
 * but Node reads thousands of small ones at a time. From BEHIND on, newcomers that have sent several are not read. From
 * MANY_BEHIND on, no newcomer is. Beyond FAR_BEHIND, the connection with most requests is cut.
 */
const BEHIND = 256;
const MANY_BEHIND = 4_096;
const FAR_BEHIND = 16_384;
/** Requests of a connection served although none shows a write key. It is cut if as many wait behind them. */
const KEYLESS = 8;
/** Cut requests still count as waiting, since reading them took time. Each pass of the event loop forgets this many. */
const CUT_FORGOTTEN = 4;

interface Arrival {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

interface WaitingConnection {
  readonly line: Line;
  readonly arrivals: Arrival[];
  /** Requests let in since the connection began to wait. */
  readonly served: number;
}

interface Newcomers {
  readonly sockets: Iterable<Socket>;
  isKnown(socket: Socket): boolean;
}

/**
 * Serves requests a few at a time. If data arrives on hundreds of connections, Node would read and serve one after the
 * other without handling anything else, such as answers of the store. Connections that have shown a write key do not wait
 * for those that have not.
 */
export class Arrivals {
  private readonly server: Server;
  private readonly serve: readonly RequestListener[];
  private readonly newcomers: Newcomers;
  private readonly known = new Line(KNOWN_AT_A_TIME);
  private readonly first = new Line(NEW_AT_A_TIME);
  private readonly others = new Line(NEW_AT_A_TIME);
  /** Paused newcomers without a waiting request: those that have sent one at most, and others. */
  private readonly firstUnread = new Line(READ_AT_A_TIME);
  private readonly unread = new Line(READ_AT_A_TIME);
  /** Newcomers that have sent a request, and those that have sent a second one. */
  private readonly seen = new WeakSet<Socket>();
  private readonly seenAgain = new WeakSet<Socket>();
  private readonly waiting = new Map<Socket, WaitingConnection>();
  /** Connections resumed in this pass of the event loop. */
  private readonly reading = new Set<Socket>();
  private unpaused: Socket[] = [];
  /** Cut requests of newcomers that still count as waiting. */
  private cutBefore = 0;
  private scheduled = false;

  /** Replaces the server's listeners for requests. */
  constructor(server: Server, newcomers: Newcomers) {
    this.server = server;
    this.newcomers = newcomers;
    this.serve = server.listeners('request') as RequestListener[];
    server.removeAllListeners('request');
    server.on('request', (request, response) => this.arrive({ request, response }));
    server.on('connection', (socket) => {
      socket.on('resume', () => this.keepPaused(socket));
      if (this.behind >= BEHIND) this.hold(socket);
    });
  }

  private arrive(arrival: Arrival): void {
    const { socket } = arrival.request;
    // It was cut while Node was parsing what had arrived.
    if (socket.destroyed) return void arrival.request.destroy();
    this.schedule();
    if (!this.newcomers.isKnown(socket)) (this.seen.has(socket) ? this.seenAgain : this.seen).add(socket);
    const before = this.waiting.get(socket);
    if (before) {
      before.arrivals.push(arrival);
      before.line.behind += 1;
      this.holdPipeline(socket);
      return;
    }
    const line = this.lineOf(socket);
    if (line.mayPass()) {
      this.letIn(arrival);
      return;
    }
    line.wait(socket);
    this.waiting.set(socket, { line, arrivals: [arrival], served: 0 });
    this.unpaused.push(socket);
    if (line !== this.known) this.holdNewcomers();
  }

  /** Pauses at once: thousands of small requests may have arrived. */
  private holdPipeline(socket: Socket): void {
    socket.pause();
    if (this.known.behind + this.first.behind + this.others.behind <= FAR_BEHIND) return;
    const [longest, { arrivals }] = [...this.waiting].reduce((most, one) =>
      one[1].arrivals.length > most[1].arrivals.length ? one : most,
    );
    this.forget(longest);
    cut(longest, arrivals);
  }

  /** Reading the body of a request resumes its connection, and one that is paused before it has resumed is still read. */
  private keepPaused(socket: Socket): void {
    if ((this.waiting.get(socket)?.arrivals.length ?? 0) > 1) socket.pause();
    if (socket.isPaused()) socket.emit('pause');
  }

  private forget(socket: Socket): void {
    const waiting = this.waiting.get(socket);
    if (waiting === undefined) return;
    waiting.line.behind -= waiting.arrivals.length - 1;
    this.waiting.delete(socket);
  }

  /** Stops reading newcomers in this pass of the event loop: to read hundreds of requests takes as long as to serve them. */
  private holdNewcomers(): void {
    for (const socket of this.newcomers.sockets) {
      if (!socket.isPaused() && !this.waiting.has(socket) && !this.reading.has(socket)) this.hold(socket);
    }
  }

  private hold(socket: Socket): void {
    socket.pause();
    (this.seenAgain.has(socket) ? this.unread : this.firstUnread).wait(socket);
  }

  /** Serves waiting requests at the end of this pass of the event loop, before anything more is read. */
  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      // Waiting connections are not read, not even their end: a connection that ends would lose its unserved requests.
      for (const socket of this.unpaused) socket.pause();
      this.unpaused = [];
      const lines = [this.known, this.first, this.others];
      for (const line of lines) line.begin((socket) => this.letNextIn(socket));
      this.reading.clear();
      this.cutBefore = Math.max(0, this.cutBefore - CUT_FORGOTTEN);
      const { behind } = this;
      const most = behind > 0 ? 1 : READ_AT_A_TIME;
      if (behind < MANY_BEHIND) this.firstUnread.begin((socket) => this.readAgain(socket), most);
      if (behind < BEHIND) this.unread.begin((socket) => this.readAgain(socket), most);
      const isAnyoneWaiting = [...lines, this.firstUnread, this.unread].some(({ isWaiting }) => isWaiting);
      if (isAnyoneWaiting || this.cutBefore > 0) this.schedule();
    });
  }

  /** @returns false if there was nothing to let in */
  private letNextIn(socket: Socket): boolean {
    const waiting = this.waiting.get(socket);
    const next = waiting?.arrivals[0];
    if (waiting === undefined || next === undefined) return false;
    const { arrivals } = waiting;
    const served = waiting.served + 1;
    this.forget(socket);
    if (socket.destroyed || next.request.destroyed) return false;
    arrivals.shift();
    this.letIn(next);
    const isKeyless = served >= KEYLESS && !this.newcomers.isKnown(socket);
    if (isKeyless && arrivals.length >= KEYLESS) {
      this.cutBefore += arrivals.length;
      cut(socket, arrivals);
    } else if (arrivals.length > 0) {
      const line = this.lineOf(socket);
      line.wait(socket);
      line.behind += arrivals.length - 1;
      this.waiting.set(socket, { line, arrivals, served });
    } else {
      socket.resume();
    }
    return true;
  }

  /** @returns false if the connection has closed */
  private readAgain(socket: Socket): boolean {
    if (socket.destroyed) return false;
    this.reading.add(socket);
    socket.resume();
    return true;
  }

  private lineOf(socket: Socket): Line {
    if (this.newcomers.isKnown(socket)) return this.known;
    return this.seenAgain.has(socket) ? this.others : this.first;
  }

  /** Requests of newcomers that wait behind another, and cut ones that still count. */
  private get behind(): number {
    return this.first.behind + this.others.behind + this.cutBefore;
  }

  private letIn({ request, response }: Arrival): void {
    for (const listener of this.serve) listener.call(this.server, request, response);
  }
}

function cut(socket: Socket, arrivals: readonly Arrival[]): void {
  socket.destroy();
  // Node would otherwise make an error for each, with its stack.
  for (const { request } of arrivals) request.destroy();
}

/** Lets a limited number of connections through in each pass of the event loop, one address after the other. */
class Line {
  /** Requests that wait behind another of their connection. */
  behind = 0;
  private readonly limit: number;
  private passed = 0;
  /** Connections by address, in the order of their turns. */
  private readonly waiting = new Map<string, Socket[]>();

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

  wait(socket: Socket): void {
    const address = socket.remoteAddress ?? '';
    const queue = this.waiting.get(address);
    if (queue) queue.push(socket);
    else this.waiting.set(address, [socket]);
  }

  /** @param pass - returns false for a connection that used no place, since it has closed */
  begin(pass: (socket: Socket) => boolean, limit = this.limit): void {
    this.passed = 0;
    for (const [address, queue] of this.waiting) {
      if (this.passed === limit) break;
      const socket = queue.shift() as Socket;
      this.waiting.delete(address);
      if (queue.length > 0) this.waiting.set(address, queue);
      if (pass(socket)) this.passed += 1;
    }
  }
}
