import type { IncomingMessage, RequestListener, Server, ServerOptions, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../kernel/clock.ts';
import { RollcallError } from '../kernel/errors.ts';
import { networkOf } from '../kernel/ip.ts';
import { JoinedChunks } from './chunks.ts';
import { type ConnectionLimits, OpenConnections } from './connections.ts';
import { answerExpectation } from './errors.ts';
import { add, type Holding, type MemoryLimits, RequestMemory } from './memory.ts';
import { CutLog, type CutReason } from './refusals.ts';

// See `errors.ts`: an import would cost 40 ms of each start.
const { createServer } = process.getBuiltinModule('node:http');

declare module 'fastify' {
  interface FastifyInstance {
    edge: ServerEdge;
  }
  interface FastifyRequest {
    holding: Holding;
  }
}

export type EdgeLimits = ConnectionLimits & MemoryLimits;

/** Connections at most, however many files the process may open: one takes some 25 KB. */
const MOST_CONNECTIONS = 2_048;
/** The rest of the files is for admins, the store, engines and deliveries. */
const SHARE_OF_FILES = 0.4;

/** Node has raised the soft limit of files to the hard one. */
export function defaultLimits(): EdgeLimits {
  const { userLimits } = process.report.getReport() as { userLimits?: { open_files: { soft: number | 'unlimited' } } };
  const files = Number(userLimits?.open_files.soft);
  const connections = Math.min(MOST_CONNECTIONS, files > 0 ? Math.floor(SHARE_OF_FILES * files) : MOST_CONNECTIONS);
  return {
    connections,
    adminConnections: Math.ceil(connections / 4),
    pipelined: 64,
    unanswered: 1_024,
    pendingBytes: 32 * 1024 * 1024,
    strangerBytes: 8 * 1024 * 1024,
    unreadBytes: 16 * 1024 * 1024,
  };
}

/**
 * Requests that are served per turn of the event loop, of connections that are not in use. A crowd that sends at once then holds
 * up neither clients that were served just before nor health checks.
 */
const WAITING_REQUESTS = 4;
const HEALTH = ['/healthz', '/readyz'];

/** Answers of fewer bytes count as requests only. */
const LARGE_ANSWER = 16 * 1024;

/** Node's deadlines and limits. */
const NODE: ServerOptions = {
  IncomingMessage: JoinedChunks,
  /** Milliseconds for a request to arrive; a slower one is answered 408. Node checks every `connectionsCheckingInterval`. */
  requestTimeout: 30_000,
  // Node ignores a request timeout that is shorter than the one for headers.
  headersTimeout: 10_000,
  connectionsCheckingInterval: 2_000,
  maxHeaderSize: 16 * 1024,
  /** Longer than load balancers keep idle connections, so that they don't send into one that is closing. */
  keepAliveTimeout: 72_000,
  // Node would answer 400 with an empty body.
  requireHostHeader: false,
};

export interface ServerEdgeOptions {
  readonly limits: Partial<EdgeLimits>;
  readonly onRefused: (reason: CutReason) => void;
  /** Changed settings of Node's server. */
  readonly node: ServerOptions;
}

interface Parts extends Partial<ServerEdgeOptions> {
  readonly log: { warn(about: object, message: string): void };
  readonly clock: Pick<Clock, 'after' | 'monotonic'>;
  readonly trustedProxies: readonly string[];
}

/** The limits of the server, for all routes: connections, requests, and the memory of bodies and unread answers. */
export class ServerEdge {
  readonly limits: EdgeLimits;
  private readonly node: ServerOptions;
  private readonly refusals: CutLog;
  private readonly connections: OpenConnections;
  private readonly memory: RequestMemory;
  /** Unanswered requests by client. A proxy's connection carries those of many. */
  private readonly requests = new Map<string, number>();
  /** What starts the requests that wait for their turn, by connection. */
  private readonly waiting = new Map<Socket, (() => void)[]>();
  private turn: NodeJS.Immediate | null = null;

  constructor({ log, clock, trustedProxies, limits, onRefused = () => {}, node = {} }: Parts) {
    this.limits = { ...defaultLimits(), ...limits };
    this.node = { ...NODE, ...node };
    this.refusals = new CutLog({ log, clock, onRefused });
    this.memory = new RequestMemory(this.limits);
    this.connections = new OpenConnections({
      ...{ limits: this.limits, trustedProxies, clock },
      onRefused: (reason) => this.refusals.count(reason),
      onClosed: ({ socket, holdings }) => {
        this.waiting.delete(socket);
        for (const holding of holdings) this.end(holding);
      },
    });
  }

  /** For Fastify's option `serverFactory`. */
  createServer(serve: RequestListener): Server {
    const guarded = (serve: RequestListener) => (request: IncomingMessage, response: ServerResponse) => {
      if (!this.connections.admits(request, response)) return;
      (request as JoinedChunks).onTooMany = () => {
        const connection = this.connections.of(request.socket);
        if (connection) this.connections.cut(connection, 'bodies');
      };
      const start = () => serve(request, response as ServerResponse<IncomingMessage>);
      if (this.connections.isInUse(request.socket) || HEALTH.includes(request.url ?? '')) return start();
      this.turn ??= setImmediate(() => this.serveWaiting());
      const { socket } = request;
      // Until then the rest of its body is not read, and takes no memory.
      socket.pause();
      const starts = this.waiting.get(socket);
      if (starts) starts.push(start);
      else this.waiting.set(socket, [start]);
    };
    const server = createServer(this.node, guarded(serve));
    server.on('checkExpectation', guarded(answerExpectation));
    server.on('connection', (socket) => this.connections.add(socket));
    return server;
  }

  /** Serves one request of each connection in turn: a client that sends many at once holds up only itself. */
  private serveWaiting(): void {
    let served = 0;
    for (const [socket, starts] of this.waiting) {
      const start = starts.shift()!;
      this.waiting.delete(socket);
      if (starts.length > 0) this.waiting.set(socket, starts);
      else socket.resume();
      if (!socket.destroyed) start();
      served += 1;
      if (served === WAITING_REQUESTS) break;
    }
    this.turn = this.waiting.size > 0 ? setImmediate(() => this.serveWaiting()) : null;
  }

  /** Adds the hooks that count every request, before any other hook. */
  register(app: FastifyInstance): void {
    app.decorateRequest('holding');
    app.addHook('onRequest', (request, reply, done) => {
      try {
        this.begin(request, reply);
      } catch (error) {
        return done(error as Error);
      }
      done();
    });
    app.addHook('onSend', ({ raw, holding }, _reply, payload, done) => {
      const bytes = typeof payload === 'string' || Buffer.isBuffer(payload) ? payload.length : 0;
      const connection = bytes < LARGE_ANSWER ? undefined : this.connections.of(raw.socket);
      if (connection) this.memory.answer(holding, bytes, connection.holdings);
      done();
    });
    app.addHook('onClose', async () => this.refusals.flush());
  }

  private begin(request: FastifyRequest, reply: FastifyReply): void {
    const { socket } = request.raw;
    const connection = this.connections.of(socket);
    const isDirect = connection !== undefined && !connection.isProxy;
    const holding: Holding = {
      ...{
        client: isDirect ? connection.address : networkOf(request.ip),
        owner: null,
        body: 0,
        answer: 0,
        isOver: false,
      },
      cut: (reason) => connection && this.connections.cut(connection, reason),
    };
    request.holding = holding;
    connection?.holdings.add(holding);
    reply.raw.once('close', () => {
      connection?.holdings.delete(holding);
      this.end(holding);
    });
    if (add(this.requests, holding.client, 1) <= this.limits.connections / 2) return;
    this.refusals.count('requests');
    throw new RollcallError('overloaded', 'Too many requests of this address are waiting; try again.');
  }

  private end(holding: Holding): void {
    if (holding.isOver) return;
    add(this.requests, holding.client, -1);
    this.memory.end(holding);
  }

  /**
   * Counts a request for the owner of the key or token that was valid: `admin`, or a source.
   *
   * @throws RollcallError `overloaded`
   */
  believe({ raw, holding }: FastifyRequest, owner: string): void {
    this.connections.believe(raw.socket, owner);
    this.memory.believe(holding, owner);
  }

  /** @throws RollcallError `overloaded` if there is no room for a body of this size */
  expect({ holding }: FastifyRequest, bytes: number): void {
    this.memory.expect(holding, bytes);
  }

  /** @throws RollcallError `overloaded` */
  hold({ holding }: FastifyRequest, bytes: number): void {
    this.memory.resize(holding, bytes);
  }
}
