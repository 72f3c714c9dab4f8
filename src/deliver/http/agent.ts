import type { LookupAddress } from 'node:dns';
import { isIP } from 'node:net';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import type { buildConnector, Dispatcher } from 'undici';
import { ATTEMPT_TIMEOUT } from '../../kernel/retry.ts';
import { type AddressGuard, addressRefused, createAddressGuard } from './address-guard.ts';
import { connectAny } from './connect-any.ts';
import { Connections } from './connections.ts';
import { ANSWER_LIMIT, withoutInterim } from './interim.ts';
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
    // Never reached, as answers are bounded on the wire: undici makes an error for each header beyond it.
    maxHeaderSize: 2 * ANSWER_LIMIT,
    // The attempt has its own timer over all phases.
    headersTimeout: 0,
    bodyTimeout: 0,
  };
  if (proxy !== null) return createProxyAgent({ url: proxy, guard, tls, pool });
  return new Connections({ ...pool, connect: guardedConnector(guard, resolve, tls) });
}

/** Connects to the very addresses that were vetted, so that a name can't change its meaning in between. */
function guardedConnector(
  guard: AddressGuard,
  resolve: Resolve,
  tls: { readonly secureContext?: SecureContext },
): buildConnector.connector {
  return (options, callback) => {
    const host = options.hostname.replace(/^\[|\]$/g, '');
    // A literal address is connected to without a lookup.
    if (isIP(host) !== 0 && !guard(host)) return callback(addressRefused(host), null);
    const isSecure = options.protocol === 'https:';
    const port = Number(options.port || (isSecure ? 443 : 80));
    const lookup = () => vetted(host, guard, resolve);
    return connectAny(
      { host, port, lookup, timeout: ATTEMPT_TIMEOUT, tls: isSecure ? tls : null },
      (...[error, socket]) => (error ? callback(error, null) : callback(null, withoutInterim(socket))),
    );
  };
}

async function vetted(host: string, guard: AddressGuard, resolve: Resolve): Promise<readonly LookupAddress[]> {
  const allowed = (await resolve(host)).filter(({ address }) => guard(address));
  if (allowed.length === 0) throw addressRefused(host);
  return allowed;
}
