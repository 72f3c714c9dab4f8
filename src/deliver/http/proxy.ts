import type { SecureContext } from 'node:tls';
import { type buildConnector, type Dispatcher, Pool, ProxyAgent } from 'undici';
import { ATTEMPT_TIMEOUT } from '../../kernel/retry.ts';
import { type AddressGuard, addressRefused, mayBeAskedFor } from './address-guard.ts';
import { Connections } from './connections.ts';
import { withoutInterim } from './interim.ts';

interface ProxyOptions {
  /** The proxy's URL; name and password in it are sent to the proxy only. */
  readonly url: string;
  readonly guard: AddressGuard;
  readonly tls: { readonly secureContext?: SecureContext };
  readonly pool: Pool.Options;
}

/**
 * Sends everything through an HTTP proxy: a tunnel (CONNECT) for https endpoints, the whole request for others. The
 * proxy resolves names; literal addresses in a URL are vetted here.
 */
export function createProxyAgent({ url, guard, tls, pool }: ProxyOptions): Dispatcher {
  const { origin: proxyOrigin } = new URL(url);
  // A resumed session would be trusted without checking its certificate again.
  const strict = { ...tls, timeout: ATTEMPT_TIMEOUT, maxCachedSessions: 0, rejectUnauthorized: true };
  const optionsOf = (origin: string | URL, options: object) => {
    const { connect } = options as { connect: buildConnector.connector };
    const isProxy = new URL(origin).origin === proxyOrigin;
    return { ...pool, ...options, connect: named(connect, isProxy ? proxyFailure : tunnelFailure) };
  };
  const poolOf = (origin: string | URL, options: object) => new Pool(origin, optionsOf(origin, options));
  const agent = new ProxyAgent({
    uri: url,
    requestTls: strict,
    proxyTls: strict,
    // undici sends plain requests to the proxy itself, through a private interface that only its own classes have.
    factory: (origin, options) =>
      new URL(origin).origin === proxyOrigin ? poolOf(origin, options) : new Connections(optionsOf(origin, options)),
    // A tunnel that is never granted must not outlive its attempt.
    clientFactory: (origin, options) => poolOf(origin, { ...options, headersTimeout: ATTEMPT_TIMEOUT }),
  });
  return agent.compose((dispatch) => (request, handler) => {
    const host = new URL(String(request.origin)).hostname;
    if (mayBeAskedFor(host, guard)) return dispatch(request, handler);
    handler.onResponseError?.(null as never, addressRefused(host));
    return true;
  });
}

/** A connector that renames failures caused by the proxy; interim answers are accepted. */
function named(connect: buildConnector.connector, rename: (error: Error) => Error): buildConnector.connector {
  return (options, callback) =>
    connect(options, (...[error, socket]) => {
      if (error) callback(rename(error), null);
      else callback(null, withoutInterim(socket));
    });
}

/** Renames a proxy failure: its certificate or address is no endpoint's fault, which would make dead letters. */
function proxyFailure(error: Error): Error {
  const { code = 'failed' } = error as { code?: string };
  return Object.assign(new Error(`The proxy can't be reached: ${error.message}`, { cause: error }), {
    code: `proxy_${code}`,
  });
}

/** Renames a refused tunnel, which is the proxy's failure; an error within a tunnel is the endpoint's. */
function tunnelFailure(error: Error): Error {
  const { code = '' } = error as { code?: string };
  if (code === 'UND_ERR_ABORTED') {
    const status = /\((\d{3})\)/.exec(error.message)?.[1];
    return Object.assign(new Error(error.message, { cause: error }), {
      code: status ? `proxy_status_${status}` : 'proxy_refused',
    });
  }
  return error;
}
