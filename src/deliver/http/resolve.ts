import { promises as dns, type LookupAddress } from 'node:dns';
import { createHosts, HOSTS_FILE } from './hosts-file.ts';

export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>;

/** Milliseconds for one try: two leave an attempt enough time for the rest. */
const TRY_TIMEOUT = 1_000;

/**
 * Looks into the hosts file first, as the system does, then queries DNS directly: the system's lookup blocks one of four
 * threads while a name server is silent, and a few dead names would stop all others. Names unknown to DNS may still be
 * in a search domain.
 *
 * @param servers - `address:port` of name servers; the system's unless given
 */
export function createResolve(servers?: readonly string[], hostsFile = HOSTS_FILE): Resolve {
  // Without a limit each try takes twice as long as the one before.
  const resolver = new dns.Resolver({ timeout: TRY_TIMEOUT, maxTimeout: TRY_TIMEOUT, tries: 2 });
  if (servers) resolver.setServers(servers);
  const hosts = createHosts(hostsFile);
  return async (hostname) => {
    const listed = (await hosts()).get(hostname);
    if (listed) return listed;
    if (hostname === 'localhost') return dns.lookup(hostname, { all: true });
    const answers = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
    const addresses = answers.flatMap((answer, index) =>
      answer.status === 'fulfilled' ? answer.value.map((address) => ({ address, family: index === 0 ? 4 : 6 })) : [],
    );
    if (addresses.length > 0) return addresses;
    const timedOut = answers.some((answer) => answer.status === 'rejected' && answer.reason?.code === 'ETIMEOUT');
    if (timedOut) throw Object.assign(new Error(`No name server answered for ${hostname}.`), { code: 'ETIMEOUT' });
    return dns.lookup(hostname, { all: true });
  };
}
