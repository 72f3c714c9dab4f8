import type { LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { buildConnector, type Dispatcher } from 'undici';
import { ATTEMPT_TIMEOUT } from '../../kernel/retry.ts';
import { type AddressGuard, addressRefused, createAddressGuard } from './address-guard.ts';
import { Connections } from './connections.ts';
import { withoutInterim } from './interim.ts';
import { createProxyAgent } from './proxy.ts';
import { createResolve, type Resolve } from './resolve.ts';

export interface AgentOptions {
  /** Private ranges that may be connected to. */
  readonly allow: readonly string[];
  /** PEM text of certificate authorities trusted in addition to the public ones. */
  readonly ca: readonly string[];
  /** HTTP proxy for all requests; it resolves names and has to vet their addresses. */
  readonly proxy: string | null;
  readonly resolve?: Resolve;
  /** Milliseconds after which idle connections are closed; sooner if the receiver asks for it. */
  readonly idleTimeout?: number;
}

const IDLE_TIMEOUT = 10_000;

/** Keeps connections alive per origin, and connects only to vetted addresses. */
export function createAgent(options: AgentOptions): Dispatcher {
  const { allow, ca, proxy, resolve = createResolve(), idleTimeout = IDLE_TIMEOUT } = options;
  // Made once: reading all authorities takes milliseconds.
  const trusted = ca.length > 0 ? [...getCACertificates('default'), ...ca] : null;
  const tls = trusted ? { secureContext: createSecureContext({ ca: trusted }) } : {};
  const guard = createAddressGuard(allow);
  const pool = {
    keepAliveTimeout: idleTimeout,
    keepAliveMaxTimeout: idleTimeout,
    pipelining: 1,
    allowH2: false,
    // The attempt has its own timer over all phases.
    headersTimeout: 0,
    bodyTimeout: 0,
  };
  if (proxy !== null) return createProxyAgent({ url: proxy, guard, tls, pool });
  return new Connections({ ...pool, connect: guardedConnector(guard, resolve, tls) });
}

/** Connects to the very address that was vetted, so that a name can't change its meaning in between. */
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
        if (!first) callback(addressRefused(hostname), '', 0);
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
    // A resumed session would be trusted without checking its certificate again.
    maxCachedSessions: 0,
    rejectUnauthorized: true,
  });
  return (options, callback) => {
    const host = options.hostname.replace(/^\[|\]$/g, '');
    // A literal address is connected to without a lookup.
    if (isIP(host) !== 0 && !guard(host)) callback(addressRefused(host), null);
    else {
      connect(options, (...[error, socket]) =>
        error ? callback(error, null) : callback(null, withoutInterim(socket)),
      );
    }
  };
}
