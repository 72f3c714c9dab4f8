import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';
import type { Pair } from './certificates.ts';
import type { Rig } from './rig.ts';

/** Requests that got through to an endpoint after its TLS handshake. */
export interface Seen {
  requests: number;
  bytes: number;
  /** Requests with what is meant for a proxy only. */
  authorised: number;
}

export interface SecureEndpoint {
  readonly server: Server;
  readonly port: number;
  readonly seen: Seen;
}

/** An endpoint with this certificate on loopback. */
export async function secureEndpoint(t: Test, pair: Pair): Promise<SecureEndpoint> {
  const seen = { requests: 0, bytes: 0, authorised: 0 };
  const server = createServer(pair, (request, response) => {
    seen.requests += 1;
    if (request.headers['proxy-authorization'] !== undefined) seen.authorised += 1;
    request.resume().on('end', () => response.end());
  });
  server.on('secureConnection', (socket) => socket.on('data', (chunk: Buffer) => (seen.bytes += chunk.length)));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return { server, port: (server.address() as AddressInfo).port, seen };
}

/** Holds that a certificate is looked at on every connection: one that changed for the worse is noticed. */
export async function noticesChange(t: Test, rig: Rig, { server, seen }: Omit<SecureEndpoint, 'port'>, worse: Pair) {
  await rig.send(1);
  await rig.settled(1);
  server.setSecureContext(worse);
  server.closeAllConnections();
  await rig.send(1);
  await rig.passUntil(() => rig.verdicts.includes('retry'));
  t.match(rig.outcomes.at(-1), ['tls_untrusted', 'wrong_host']);
  t.equal(seen.requests, 1);
}
