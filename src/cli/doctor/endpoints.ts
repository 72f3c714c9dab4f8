import { once } from 'node:events';
import { createConnection, isIP } from 'node:net';
import { connect, getCACertificates, type PeerCertificate } from 'node:tls';
import type { NetworkConfig } from '../../config/config.ts';
import { classifyError } from '../../deliver/classify.ts';
import { createAddressGuard, mayBeAskedFor } from '../../deliver/http/address-guard.ts';
import { createResolve } from '../../deliver/http/resolve.ts';
import { type Destination, shownUrl } from '../../destination.ts';
import { systemClock } from '../../kernel/clock.ts';
import { dayOf } from '../../kernel/timestamp.ts';
import { type Finding, failed, ok, warning } from './finding.ts';

const TIMEOUT = 5_000;
const DAY = 86_400_000;
/** A certificate that expires sooner should have been renewed by now. */
const SOON = 14 * DAY;

/** Resolve each endpoint's name, and check its addresses and certificate. Sends no request. */
export async function* examineEndpoints(
  destinations: readonly Destination[],
  network: NetworkConfig,
): AsyncGenerator<Finding> {
  if (network.proxy !== null) yield await examineProxy(new URL(network.proxy));
  for (const { name, enabled, endpoints } of destinations) {
    if (!enabled) continue;
    for (const endpoint of endpoints) {
      yield await examine(`${name} ${shownUrl(endpoint)}`, new URL(endpoint.url), network);
    }
  }
}

async function examineProxy({ origin, hostname, port, protocol }: URL): Promise<Finding> {
  const socket = createConnection(Number(port || (protocol === 'https:' ? 443 : 80)), withoutBrackets(hostname));
  socket.setTimeout(TIMEOUT, () => socket.destroy(noAnswer()));
  try {
    await once(socket, 'connect');
    return ok('network.proxy', `${origin} takes connections`);
  } catch (error) {
    return failed(
      'network.proxy',
      `${origin} takes no connection (${codeOf(error as Error)}), so that nothing can be sent. Is it running, and is that its address?`,
    );
  } finally {
    socket.destroy();
  }
}

async function examine(check: string, url: URL, network: NetworkConfig): Promise<Finding> {
  const guard = createAddressGuard(network.allow);
  const host = withoutBrackets(url.hostname);
  if (network.proxy !== null) {
    return mayBeAskedFor(host, guard)
      ? ok(check, 'is reached by network.proxy, which looks its name up and vets it')
      : failed(check, `${host} ${notAllowed(isIP(host) === 0 ? '127.0.0.1' : host)}`);
  }
  const found = await addressesOf(host);
  if (found instanceof Error) {
    return failed(check, `its name ${host} does not resolve (${codeOf(found)}). Compare it with DNS`);
  }
  const allowed = found.filter(guard);
  const [refused] = found.filter((address) => !guard(address));
  const [first] = allowed;
  if (first === undefined) return failed(check, `resolves to ${refused}, which ${notAllowed(refused ?? host)}`);
  const where = `resolves to ${allowed.join(', ')}`;
  if (url.protocol !== 'https:') return ok(check, `${where}; not encrypted, and no request was sent`);
  const certificate = await certificateOf(first, Number(url.port || 443), host, network).catch((error: Error) => error);
  return certificate instanceof Error
    ? badCertificate(check, where, certificate)
    : goodUntil(check, where, certificate);
}

function notAllowed(address: string): string {
  const range = `${address}/${isIP(address) === 6 ? 128 : 32}`;
  return `is not a public address: nothing is sent there (address_refused). If it is yours, add ${range} to network.allow`;
}

async function addressesOf(host: string): Promise<readonly string[] | Error> {
  if (isIP(host) !== 0) return [host];
  try {
    return (await createResolve()(host)).map(({ address }) => address);
  } catch (error) {
    return error as Error;
  }
}

function certificateOf(
  address: string,
  port: number,
  host: string,
  { ca }: NetworkConfig,
): Promise<Pick<PeerCertificate, 'valid_to'>> {
  return new Promise((resolve, reject) => {
    const trusted = ca.length > 0 ? { ca: [...getCACertificates('default'), ...ca] } : {};
    const name = isIP(host) === 0 ? { servername: host } : {};
    const socket = connect({ host: address, port, timeout: TIMEOUT, ...name, ...trusted }, () => {
      resolve(socket.getPeerCertificate());
      socket.destroy();
    });
    socket.once('timeout', () => socket.destroy(noAnswer()));
    socket.once('error', reject);
  });
}

function badCertificate(check: string, where: string, error: Error): Finding {
  const { outcome, error: cause } = classifyError(error);
  if (outcome !== 'tls_untrusted') return failed(check, `${where}, but no connection is possible (${cause})`);
  return failed(
    check,
    `${where}; its certificate is not trusted (${cause}), so that nothing is sent. Install another one, or name its authority in network.ca`,
  );
}

function goodUntil(check: string, where: string, { valid_to }: Pick<PeerCertificate, 'valid_to'>): Finding {
  const end = Date.parse(valid_to);
  const days = Math.floor((end - systemClock.now()) / DAY);
  const until = `its certificate is good until ${dayOf(end)}`;
  if (end - systemClock.now() < SOON) return warning(check, `${where}; ${until}, in ${days} days: renew it`);
  return ok(check, `${where}; ${until}`);
}

const withoutBrackets = (host: string) => host.replace(/^\[|\]$/g, '');
const noAnswer = () => Object.assign(new Error('no answer'), { code: 'TIMEOUT' });
const codeOf = (error: Error) => (error as NodeJS.ErrnoException).code ?? error.message;
