import type { LookupAddress } from 'node:dns';
import { connect, isIP, type Socket, type TcpNetConnectOpts } from 'node:net';
import { connect as connectSecurely, type SecureContext } from 'node:tls';
import { TIMEOUT } from '../classify.ts';

/** Head start of each address over the next, in milliseconds (RFC 8305 section 5). */
const HEAD_START = 250;
/** Addresses tried for one connection: an answer of DNS may name thousands. */
const MOST_ADDRESSES = 16;
/** As undici sets it on the sockets that it makes. */
const KEEP_ALIVE_DELAY = 60_000;

type OnConnection = (...[error, socket]: [null, Socket] | [Error, null]) => void;

interface ConnectOptions {
  readonly host: string;
  readonly port: number;
  /** Addresses of the host, at least one. */
  readonly lookup: () => Promise<readonly LookupAddress[]>;
  /** Milliseconds for everything. */
  readonly timeout: number;
  /** Set for TLS, whose handshake belongs to the race. */
  readonly tls: { readonly secureContext?: SecureContext } | null;
}

/**
 * Connects to whichever address of a host answers first, IPv4 and IPv6 in turns. A slow one goes on while the next is
 * tried: Node's own `autoSelectFamily` gives it up after its head start, and so never reaches a distant endpoint
 * (https://github.com/nodejs/node/issues/54359).
 *
 * @param done - called once; after a failure with the errors of all addresses, in their order
 */
export function connectAny({ host, port, lookup, timeout, tls }: ConnectOptions, done: OnConnection): void {
  const sockets = new Set<Socket>();
  const errors: Error[] = [];
  let addresses: Promise<readonly LookupAddress[]> | null = null;
  let count = 1;
  let begun = 0;
  let isOver = false;
  let headStart: NodeJS.Timeout | undefined;
  const end = (...result: Parameters<OnConnection>) => {
    if (isOver) return;
    isOver = true;
    clearTimeout(headStart);
    clearTimeout(deadline);
    for (const socket of sockets) if (socket !== result[1]) socket.destroy();
    done(...result);
  };
  const deadline = setTimeout(() => {
    end(Object.assign(new Error(`No connection within ${timeout} ms.`), { code: TIMEOUT }), null);
  }, timeout);
  const next = () => {
    clearTimeout(headStart);
    if (isOver || begun === count) return;
    const place = begun;
    begun += 1;
    const options = {
      host,
      port,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_DELAY,
      autoSelectFamily: false,
      lookup: (_host, _options, callback) => {
        addresses ??= lookup().then(inTurns);
        addresses.then(
          (found) => {
            count = found.length;
            if (begun < count && !isOver) headStart = setTimeout(next, HEAD_START);
            const { address = '', family = 0 } = found[place] ?? {};
            callback(null, address, family);
          },
          (error) => callback(error, ''),
        );
      },
    } satisfies TcpNetConnectOpts;
    const socket = tls ? secured(options, tls) : connect(options);
    sockets.add(socket);
    const failed = (error: Error) => {
      sockets.delete(socket);
      errors[place] = error;
      if (begun < count) next();
      else if (sockets.size === 0)
        end(errors.length > 1 ? new AggregateError(errors, errors[0]?.message) : error, null);
    };
    socket.once('error', failed).once(tls ? 'secureConnect' : 'connect', () => {
      socket.off('error', failed);
      end(null, socket);
    });
  };
  next();
}

function secured(
  options: TcpNetConnectOpts & { readonly host: string },
  tls: NonNullable<ConnectOptions['tls']>,
): Socket {
  return connectSecurely({
    ...options,
    ...tls,
    servername: isIP(options.host) === 0 ? options.host : '',
    ALPNProtocols: ['http/1.1'],
    rejectUnauthorized: true,
  });
}

/** The first of each family, the second of each, and so on; the family that came first stays first. */
function inTurns(addresses: readonly LookupAddress[]): LookupAddress[] {
  const first = addresses.filter(({ family }) => family === addresses[0]?.family);
  const others = addresses.filter((address) => !first.includes(address));
  return Array.from({ length: Math.max(first.length, others.length) }, (_, index) => [first[index], others[index]])
    .flat()
    .filter((address) => address !== undefined)
    .slice(0, MOST_ADDRESSES);
}
