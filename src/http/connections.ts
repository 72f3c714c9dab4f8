import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import ipaddr from 'ipaddr.js';
import type { Clock } from '../kernel/clock.ts';
import { networkOf } from '../kernel/ip.ts';
import type { Holding } from './memory.ts';
import type { CutReason } from './refusals.ts';

export interface ConnectionLimits {
  /** Connections in all. An address and a source may have half of them. */
  readonly connections: number;
  /** Connections of admins. They count nowhere else, so nobody without a token takes their place. */
  readonly adminConnections: number;
  /** Unanswered requests of one connection. */
  readonly pipelined: number;
  /** Unanswered requests in all. Beyond them, no connection may have two. */
  readonly unanswered: number;
}

/**
 * Milliseconds between two cuts of a group beyond its limit: a client that reconnects at once must not make us as busy as it
 * is. Beyond OVERFLOW times the limit, cuts do not wait, so a new connection always has a place.
 */
const CUT_EVERY = 2;
const OVERFLOW = 1.5;
/** Milliseconds from its last answer for which a connection is in use. */
const IN_USE = 1_000;

/** Connections of one address, of one source, of admins, or all. */
interface Group {
  readonly name: string;
  readonly reason: CutReason;
  readonly limit: number;
  /** The longest idle first. */
  readonly members: Set<OpenConnection>;
}

interface OpenConnection {
  readonly socket: Socket;
  /** An IPv6 address counts by its /64. */
  readonly address: string;
  readonly isProxy: boolean;
  readonly groups: Set<Group>;
  /** The memory of requests that are not answered yet. */
  readonly holdings: Set<Holding>;
  unanswered: number;
  /** Milliseconds of the monotonic clock. */
  answeredAt: number;
  owner: string | null;
}

interface Options {
  readonly limits: ConnectionLimits;
  readonly trustedProxies: readonly string[];
  readonly clock: Pick<Clock, 'after' | 'monotonic'>;
  readonly onRefused: (reason: CutReason) => void;
  readonly onClosed: (connection: OpenConnection) => void;
}

/** Bounds connections. A new one is never refused: beyond a limit, the longest idle one is cut. */
export class OpenConnections {
  private readonly options: Options;
  private readonly isProxy: (address: string) => boolean;
  private readonly bySocket = new Map<Socket, OpenConnection>();
  private readonly groups = new Map<string, Group>();
  private readonly crowded = new Set<Group>();
  private unanswered = 0;

  constructor(options: Options) {
    this.options = options;
    this.isProxy = listedIn(options.trustedProxies);
  }

  of(socket: Socket): OpenConnection | undefined {
    return this.bySocket.get(socket);
  }

  /** True if a connection was answered lately, and sends one request at a time. */
  isInUse(socket: Socket): boolean {
    const { unanswered = 0, answeredAt = 0 } = this.of(socket) ?? {};
    return unanswered === 1 && this.options.clock.monotonic() - answeredAt < IN_USE;
  }

  add(socket: Socket): void {
    const { remoteAddress = '' } = socket;
    const connection: OpenConnection = {
      ...{ socket, address: networkOf(remoteAddress), isProxy: this.isProxy(remoteAddress) },
      ...{ groups: new Set(), holdings: new Set(), unanswered: 0, answeredAt: Number.NEGATIVE_INFINITY, owner: null },
    };
    this.bySocket.set(socket, connection);
    socket.once('close', () => this.closed(connection));
    const { connections } = this.options.limits;
    if (!connection.isProxy) this.join(connection, `address ${connection.address}`, 'address', connections / 2);
    this.join(connection, 'all', 'all', connections);
  }

  private closed(connection: OpenConnection): void {
    this.bySocket.delete(connection.socket);
    this.unanswered -= connection.unanswered;
    for (const group of connection.groups) this.leave(connection, group);
    this.options.onClosed(connection);
  }

  /** @returns false if the request must not be served, as its connection is cut */
  admits({ socket }: IncomingMessage, response: ServerResponse): boolean {
    const connection = this.bySocket.get(socket);
    // Node still parses what had arrived on a connection that was cut.
    if (connection === undefined || socket.destroyed) return false;
    const { pipelined, unanswered } = this.options.limits;
    connection.unanswered += 1;
    this.unanswered += 1;
    const isSecond = connection.unanswered > 1;
    if (isSecond && (connection.unanswered > pipelined || this.unanswered > unanswered)) {
      this.cut(connection, 'pipelining');
      return false;
    }
    this.touch(connection);
    response.once('close', () => {
      if (!this.bySocket.has(socket)) return;
      connection.unanswered -= 1;
      connection.answeredAt = this.options.clock.monotonic();
      this.unanswered -= 1;
      this.touch(connection);
    });
    return true;
  }

  /** Counts a connection for the owner of a key or token that was valid on it. A proxy's stays everybody's. */
  believe(socket: Socket, owner: string): void {
    const connection = this.bySocket.get(socket);
    if (connection === undefined || connection.isProxy) return;
    if (connection.owner === owner || connection.owner === 'admin') return;
    for (const group of connection.groups) {
      if (owner === 'admin' || group.reason === 'source') this.leave(connection, group);
    }
    connection.owner = owner;
    if (owner === 'admin') this.join(connection, owner, owner, this.options.limits.adminConnections);
    else this.join(connection, owner, 'source', this.options.limits.connections / 2);
  }

  cut(connection: OpenConnection, reason: CutReason): void {
    if (connection.socket.destroyed) return;
    this.options.onRefused(reason);
    closeWithoutStacks(connection.socket);
  }

  private join(connection: OpenConnection, name: string, reason: CutReason, limit: number): void {
    const group = this.groups.get(name) ?? { name, reason, limit: Math.ceil(limit), members: new Set() };
    this.groups.set(name, group);
    group.members.add(connection);
    connection.groups.add(group);
    if (group.members.size <= group.limit) return;
    if (group.members.size > OVERFLOW * group.limit) this.cutIdlest(group);
    if (this.crowded.size === 0) this.options.clock.after(CUT_EVERY, () => this.thinOut());
    this.crowded.add(group);
  }

  private thinOut(): void {
    for (const group of this.crowded) {
      if (group.members.size > group.limit) this.cutIdlest(group);
      if (group.members.size <= group.limit) this.crowded.delete(group);
    }
    if (this.crowded.size > 0) this.options.clock.after(CUT_EVERY, () => this.thinOut());
  }

  private cutIdlest(group: Group): void {
    const [idlest] = group.members;
    if (idlest === undefined) return;
    this.leave(idlest, group);
    this.cut(idlest, group.reason);
  }

  private leave(connection: OpenConnection, group: Group): void {
    group.members.delete(connection);
    connection.groups.delete(group);
    if (group.members.size === 0) this.groups.delete(group.name);
  }

  private touch(connection: OpenConnection): void {
    for (const { members } of connection.groups) {
      members.delete(connection);
      members.add(connection);
    }
  }
}

/** Node's. It would make objects of all requests that arrived with the one that got the connection cut: thousands. */
interface Parser {
  onIncoming: () => number;
}
/** As if an upgrade to another protocol followed. */
const STOP_PARSING = 2;

/** Node makes an error for each request that waits on the connection. Their stacks would cost more than the requests. */
function closeWithoutStacks(socket: Socket & { readonly parser?: Parser | null }): void {
  if (socket.parser) socket.parser.onIncoming = () => STOP_PARSING;
  const { stackTraceLimit } = Error;
  socket.prependOnceListener('close', () => {
    Error.stackTraceLimit = 0;
  });
  socket.once('close', () => {
    Error.stackTraceLimit = stackTraceLimit;
  });
  socket.destroy();
}

function listedIn(ranges: readonly string[]): (address: string) => boolean {
  const list = ranges.map((range): [ipaddr.IPv4 | ipaddr.IPv6, number] => {
    if (range.includes('/')) return ipaddr.parseCIDR(range);
    const address = ipaddr.process(range);
    return [address, 8 * address.toByteArray().length];
  });
  return (address) =>
    ipaddr.isValid(address) && ipaddr.subnetMatch(ipaddr.process(address), { proxies: list }, '') === 'proxies';
}
