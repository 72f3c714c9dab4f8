import type { LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { Agent, buildConnector, type Dispatcher, ProxyAgent } from 'undici';
import { ATTEMPT_TIMEOUT } from '../../retry.ts';
import { ADDRESS_REFUSED } from '../classify.ts';
import { type AddressGuard, createAddressGuard } from './address-guard.ts';
import { createResolve, type Resolve } from './resolve.ts';

export interface AgentOptions {
  /** Private ranges that may be connected to all the same. */
  readonly allow: readonly string[];
  /** PEM text of certificate authorities trusted besides the public ones. */
  readonly ca: readonly string[];
  /** All requests go through this HTTP proxy, which then does the looking up and has to do the vetting. */
  readonly proxy: string | null;
  readonly resolve?: Resolve;
}

/** Idle connections are closed after this many milliseconds. */
const IDLE_TIMEOUT = 10_000;

/** Keeps connections alive per origin, and connects only to addresses that were vetted. */
export function createAgent({ allow, ca, proxy, resolve = createResolve() }: AgentOptions): Dispatcher {
  // Made once: reading all authorities takes milliseconds.
  const trusted = ca.length > 0 ? [...getCACertificates('default'), ...ca] : null;
  const tls = trusted ? { secureContext: createSecureContext({ ca: trusted }) } : {};
  const common = { keepAliveTimeout: IDLE_TIMEOUT, keepAliveMaxTimeout: IDLE_TIMEOUT, pipelining: 1, allowH2: false };
  if (proxy !== null) return new ProxyAgent({ uri: proxy, requestTls: tls, ...common });
  return new Agent({
    ...common,
    // The attempt has its own clock over all phases.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: guardedConnector(createAddressGuard(allow), resolve, tls),
  });
}

/** The address that is vetted is the one that is connected to, so that a name can't change its meaning in between. */
function guardedConnector(
  guard: AddressGuard,
  resolve: Resolve,
  tls: { readonly secureContext?: SecureContext },
): buildConnector.connector {
  const lookup: LookupFunction = (hostname, options, callback) => {
    resolve(hostname).then(
      (addresses) => {
        const vetted = addresses.filter(({ address }) => guard(address));
        const first = vetted[0];
        if (!first) callback(refusal(hostname), '', 0);
        else if (options.all) callback(null, vetted as LookupAddress[]);
        else callback(null, first.address, first.family);
      },
      (error) => callback(error, '', 0),
    );
  };
  const connect = buildConnector({
    ...tls,
    lookup,
    timeout: ATTEMPT_TIMEOUT,
    allowH2: false,
    // A resumed session is trusted without its certificate being looked at again.
    maxCachedSessions: 0,
    rejectUnauthorized: true,
  });
  return (options, callback) => {
    const host = options.hostname.replace(/^\[|\]$/g, '');
    // A literal address is connected to without any lookup.
    if (isIP(host) !== 0 && !guard(host)) callback(refusal(host), null);
    else connect(options, callback);
  };
}

function refusal(host: string): Error {
  const message = `${host} resolves to no address that network.allow permits.`;
  return Object.assign(new Error(message), { code: ADDRESS_REFUSED });
}
