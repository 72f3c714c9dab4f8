import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Requests that are served before everything else goes on: on connections that have shown a write key, and on others. Of the
 * latter, who sends one request after the other does not keep those waiting who send their first.
 */
const KNOWN_AT_A_TIME = 64;
const NEW_AT_A_TIME = 1;
/** Connections of newcomers that are read again in each pass of the event loop: on most, nothing has come. */
const READ_AT_A_TIME = 4;
/**
 * Requests that wait behind another of their own connection. Hardly any client sends one before the last is answered, but of the
 * smallest, Node reads thousands at a time. From so many on, nothing is read of newcomers that have sent several; from many on, of no
 * newcomer; beyond the last, the longest is cut.
 */
const BEHIND = 256;
const MANY_BEHIND = 4_096;
const FAR_BEHIND = 16_384;
/** Requests of a connection that are served although none shows a write key. It is cut if as many wait behind them. */
const KEYLESS = 8;
/** Requests that were cut count as if they still waited, since reading them took time. In each pass of the event loop so many are forgotten. */
const CUT_FORGOTTEN = 4;

interface Arrival {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** What waits on a connection, in order, and in which line it stands. */
interface WaitingConnection {
  readonly line: Line;
  readonly arrivals: Arrival[];
  /** Requests that were let in since they wait. */
  readonly served: number;
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
  private readonly known = new Line(KNOWN_AT_A_TIME);
  private readonly first = new Line(NEW_AT_A_TIME);
  private readonly others = new Line(NEW_AT_A_TIME);
  /** Connections without a request that nothing is read of. */
  private readonly firstUnread = new Line(READ_AT_A_TIME);
  private readonly unread = new Line(READ_AT_A_TIME);
  /** Newcomers of whom a request has come, and those of whom a second one has. */
  private readonly seen = new WeakSet<Socket>();
  private readonly seenAgain = new WeakSet<Socket>();
  private readonly waiting = new Map<Socket, WaitingConnection>();
  /** Those that are read again in this pass of the event loop. */
  private readonly reading = new Set<Socket>();
  private unpaused: Socket[] = [];
  /** Requests of newcomers that were cut, as far as they still count. */
  private cutBefore = 0;
  private scheduled = false;

  /** Takes the place of what the server does with a request. */
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
    // It was cut in the middle of what had come of it.
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

  /** At once: of small requests, thousands may have come. */
  private holdPipeline(socket: Socket): void {
    socket.pause();
    if (this.known.behind + this.first.behind + this.others.behind <= FAR_BEHIND) return;
    const [longest, { arrivals }] = [...this.waiting].reduce((most, one) =>
      one[1].arrivals.length > most[1].arrivals.length ? one : most,
    );
    this.forget(longest);
    cut(longest, arrivals);
  }

  /** Who reads the body of a request lets its connection go on, and one that is paused before it has resumed is read all the same. */
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

  /** Nothing more is read of newcomers in this pass of the event loop: to read hundreds of requests takes as long as to serve them. */
  private holdNewcomers(): void {
    for (const socket of this.newcomers.sockets) {
      if (!socket.isPaused() && !this.waiting.has(socket) && !this.reading.has(socket)) this.hold(socket);
    }
  }

  private hold(socket: Socket): void {
    socket.pause();
    (this.seenAgain.has(socket) ? this.unread : this.firstUnread).wait(socket);
  }

  /** At the end of this pass of the event loop, before anything more is read. */
  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      // Nothing more is read of who waits, its end neither: a connection that ends takes with it what nobody has looked at.
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

  /** Whether there was anything to let in. */
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

  /** The same of a connection that nothing was read of. */
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

  /** Requests of newcomers that wait behind another, or did. */
  private get behind(): number {
    return this.first.behind + this.others.behind + this.cutBefore;
  }

  private letIn({ request, response }: Arrival): void {
    for (const listener of this.serve) listener.call(this.server, request, response);
  }
}

function cut(socket: Socket, arrivals: readonly Arrival[]): void {
  socket.destroy();
  // Node would make an error for each, with its stack.
  for (const { request } of arrivals) request.destroy();
}

/** Lets a limited number pass in each pass of the event loop, one address after the other. */
class Line {
  /** Requests that wait behind another of their connection. */
  behind = 0;
  private readonly limit: number;
  private passed = 0;
  /** By address, the one whose turn is next first. */
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

  /** @param pass - says whether it was worth a place: of those that are gone, nothing is to be done */
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
