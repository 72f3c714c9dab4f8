import type { AdminToken, Config } from '../config/config.ts';
import type { Clock } from '../kernel/clock.ts';
import { issuePass } from './passes.ts';

const EVERYWHERE = new Map([
  ['0.0.0.0', '127.0.0.1'],
  ['::', '::1'],
  ['[::]', '[::1]'],
]);

/** A link that signs a browser in once, with the rights of the token that may do most. Null without a token. */
export function signInLink(
  address: string,
  tokens: readonly AdminToken[],
  clock: Pick<Clock, 'now' | 'token'>,
): string | null {
  const [token] = tokens.toSorted((a, b) => b.may.length - a.may.length);
  if (!token) return null;
  const { hostname, port } = new URL(address);
  return `${localUrl({ host: hostname, port: Number(port) || 80 })}/#token=${issuePass('link', token, clock)}`;
}

/** A service that listens on every address is reached at the loopback address. */
export function localUrl({ host, port }: Pick<Config['listen'], 'host' | 'port'>): string {
  const address = EVERYWHERE.get(host) ?? host;
  return `http://${address.includes(':') && !address.startsWith('[') ? `[${address}]` : address}:${port}`;
}
