import type { LookupAddress } from 'node:dns';
import { connect, type Socket } from 'node:net';
import { TIMEOUT } from '../classify.ts';

/** Head start of each address over the next, in milliseconds (RFC 8305 section 5). */
const HEAD_START = 250;
/** As undici sets it on the sockets it makes. */
const KEEP_ALIVE_DELAY = 60_000;

type Connected = (...[error, socket]: [null, Socket] | [Error, null]) => void;

/**
 * Connects to whichever address answers first, IPv4 and IPv6 in turns. A slow one goes on while the next is tried: Node's
 * own `autoSelectFamily` gives it up after its head start, and so never reaches a distant endpoint
 * (https://github.com/nodejs/node/issues/54359).
 *
 * @param timeout - milliseconds for all of them together
 * @param done - called once; after a failure with the errors of all, in their order
 */
export function connectAny(addresses: readonly LookupAddress[], port: number, timeout: number, done: Connected): void {
  const waiting = inTurns(addresses);
  const sockets = new Set<Socket>();
  const errors = new Map<string, Error>();
  let headStart: NodeJS.Timeout | undefined;
  const end = (...result: Parameters<Connected>) => {
    clearTimeout(headStart);
    clearTimeout(deadline);
    waiting.length = 0;
    for (const socket of sockets) if (socket !== result[1]) socket.destroy();
    done(...result);
  };
  const deadline = setTimeout(() => {
    end(Object.assign(new Error(`No connection within ${timeout} ms.`), { code: TIMEOUT }), null);
  }, timeout);
  const next = () => {
    clearTimeout(headStart);
    const address = waiting.shift();
    if (!address) {
      if (sockets.size === 0) end(allOf(addresses, errors), null);
      return;
    }
    const { address: host, family } = address;
    const socket = connect({
      host,
      family,
      port,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_DELAY,
    });
    sockets.add(socket);
    const failed = (error: Error) => {
      sockets.delete(socket);
      errors.set(host, error);
      next();
    };
    socket.once('error', failed).once('connect', () => {
      socket.off('error', failed);
      end(null, socket);
    });
    headStart = setTimeout(next, HEAD_START);
  };
  next();
}

/** The first of each family, the second of each, and so on; the family that came first stays first. */
function inTurns(addresses: readonly LookupAddress[]): LookupAddress[] {
  const first = addresses.filter(({ family }) => family === addresses[0]?.family);
  const others = addresses.filter((address) => !first.includes(address));
  return Array.from({ length: Math.max(first.length, others.length) }, (_, index) => [first[index], others[index]])
    .flat()
    .filter((address) => address !== undefined);
}

function allOf(addresses: readonly LookupAddress[], errors: ReadonlyMap<string, Error>): Error {
  const inOrder = addresses.flatMap(({ address }) => errors.get(address) ?? []);
  return inOrder.length === 1 && inOrder[0]
    ? inOrder[0]
    : new AggregateError(inOrder, 'No address accepts a connection.');
}
