import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import fastify, { errorCodes, type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { type Clock, systemClock } from '../kernel/clock.ts';
import { RollcallError } from '../kernel/errors.ts';
import { readBody } from './body.ts';
import { ServerEdge, type ServerEdgeOptions } from './edge.ts';
import { answerClientError, answerError, answerNotFound } from './errors.ts';

/**
 * Connections that may wait to be accepted; the system may allow fewer (`net.core.somaxconn`). Beyond them a client gets no
 * answer and retries after a second or more: Node's 511 are too few for a crowd that connects at once.
 */
const BACKLOG = 4_096;
/**
 * Sockets that listen at one port. libuv accepts one connection of each per turn of the event loop, so with one socket a
 * health check would wait behind thousands of others. Only Linux spreads connections over several.
 */
const SOCKETS = process.platform === 'linux' ? 16 : 1;
/** Bytes of a body, unless its route says otherwise: those of callers that have shown a token. */
const BODY_BYTES = 10 * 1024;
/** Milliseconds for open requests to arrive and be answered, once the server is being closed. */
const LAST_REQUESTS = 10_000;

interface HealthChecks {
  /** Throws when the process can't go on. */
  readonly alive: () => void;
  /** Throws when messages can't be taken now. */
  readonly ready: () => Promise<void>;
}

/** The listening server with its health routes; the stages register theirs on it. */
export function createHttpServer(
  log: FastifyBaseLogger,
  { alive, ready }: HealthChecks,
  trustedProxies: readonly string[] = [],
  clock: Pick<Clock, 'after' | 'monotonic'> = systemClock,
  options: Partial<ServerEdgeOptions> = {},
): FastifyInstance {
  const edge = new ServerEdge({ log, clock, trustedProxies, ...options });
  const server = fastify({
    serverFactory: (serve) => edge.createServer(serve),
    bodyLimit: BODY_BYTES,
    // Ids have up to 1,000 bytes, each of which may be encoded in three.
    routerOptions: { maxParamLength: 3_000 },
    clientErrorHandler: answerClientError,
    // Answers URLs that can't be decoded, such as `/%zz`.
    frameworkErrors: answerError,
    trustProxy: trustedProxies.length > 0 ? [...trustedProxies] : false,
    loggerInstance: log,
    logController: new LogController({ disableRequestLogging: true }),
    forceCloseConnections: 'idle',
    return503OnClosing: false,
  });
  server.decorate('edge', { getter: () => edge });
  edge.register(server);
  readJsonOnly(server);
  let isClosing = false;
  let endAnyway = () => {};
  server.addHook('preClose', async () => {
    isClosing = true;
    // A client answered from now on might keep its connection, and the server would wait for as long as it may be idle.
    server.server.keepAliveTimeout = 1;
    // Node no longer checks for requests that take too long.
    endAnyway = clock.after(LAST_REQUESTS, () => server.server.closeAllConnections());
  });
  server.addHook('onClose', async () => endAnyway());
  server.server.on('checkContinue', (request, response) => {
    // Only once the body is wanted: a request refused by its headers must not be asked for it.
    request.once('resume', () => {
      if (!response.headersSent) response.writeContinue();
    });
    server.server.emit('request', request, response);
  });
  server.addHook('onRequest', ({ raw }, reply, done) => {
    if (isClosing) return done(new RollcallError('stopping', 'Rollcall is stopping.'));
    if (raw.headers.host !== undefined || raw.httpVersion === '1.0') return done();
    reply.header('connection', 'close');
    done(new RollcallError('invalid_request', 'The request has no Host header.'));
  });
  server.setErrorHandler(answerError);
  server.setNotFoundHandler(answerNotFound);
  const documentation = { schema: { tags: ['Health'] } };
  server.get('/healthz', documentation, async () => {
    alive();
    return { status: 'ok' };
  });
  let wasReady = true;
  server.get('/readyz', documentation, async (request, reply) => {
    try {
      await ready();
    } catch (error) {
      // Probes ask each second: only the change is news.
      answerError(error as RollcallError, request, reply, wasReady ? { path: '/readyz' } : null);
      wasReady = false;
      return reply;
    }
    if (!wasReady) log.info({ path: '/readyz' }, 'Ready again');
    wasReady = true;
    return { status: 'ok' };
  });
  return server;
}

/** Reads bodies within the limits of the edge. Those of unknown paths are not read. */
function readJsonOnly(server: FastifyInstance): void {
  const parse = server.getDefaultJsonParser('error', 'error');
  server.removeAllContentTypeParsers();
  server.addContentTypeParser('application/json', (request, payload, done) => {
    if (request.is404) return done(null);
    readBody(request, payload, (error, bytes) => {
      if (error) done(error);
      else parse(request, bytes.toString(), done);
    });
  });
  server.addContentTypeParser('*', ({ is404 }, _payload, done) => {
    done(is404 ? null : new errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE());
  });
}

/**
 * Starts to listen. `localhost` may be two addresses. Fastify would then make a second server without the settings of the
 * first. Here the first one serves the connections of all.
 *
 * @returns the address to send to
 */
export async function startListening(
  server: FastifyInstance,
  { host, port }: { readonly host: string; readonly port: number },
  addressesOf = localAddresses,
): Promise<string> {
  const [first = '127.0.0.1', ...others] = host === 'localhost' ? await addressesOf(host) : [host];
  const doors: Server[] = [];
  let closed: readonly Promise<unknown>[] = [];
  server.addHook('preClose', async () => {
    closed = doors.map((door) => once(door.close(), 'close'));
  });
  // Waits until requests of these connections are answered.
  server.addHook('onClose', async () => void (await Promise.all(closed)));
  if (port > 0) await ensureFree(first, port);
  const options = { host: first, port, ...LISTENING };
  const address = await server.listen(options);
  const bound = server.server.address() as AddressInfo;
  const more = [
    ...Array<string>(SOCKETS - 1).fill(first),
    ...others.flatMap((other) => Array<string>(SOCKETS).fill(other)),
  ];
  for (const host of more) {
    const door = await openDoor(server, host, bound.port);
    if (door !== null) doors.push(door);
  }
  return address;
}

const LISTENING = { backlog: BACKLOG, reusePort: SOCKETS > 1 };

/** Another process of the same user could listen at the same port, and take half of the connections. */
async function ensureFree(host: string, port: number): Promise<void> {
  const alone = createServer().listen({ host, port });
  await once(alone, 'listening');
  await once(alone.close(), 'close');
}

async function localAddresses(host: string): Promise<string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

/** Null if the machine has no such address. */
async function openDoor({ server }: FastifyInstance, host: string, port: number): Promise<Server | null> {
  const door = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => server.emit('connection', socket));
  door.listen({ host, port, ...LISTENING });
  try {
    await once(door, 'listening');
    return door;
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT') return null;
    throw error;
  }
}
