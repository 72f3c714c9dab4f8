import type { LookupAddress } from 'node:dns';
import { readFile, stat } from 'node:fs/promises';
import { isIP } from 'node:net';

type Hosts = ReadonlyMap<string, readonly LookupAddress[]>;

export const HOSTS_FILE = process.platform === 'win32' ? 'C:\\Windows\\System32\\drivers\\etc\\hosts' : '/etc/hosts';

/** Reads the hosts file, and reads it again only once it has changed. */
export function createHosts(path: string): () => Promise<Hosts> {
  let seen = '';
  let hosts: Hosts = new Map();
  return async () => {
    try {
      const { ino, size, mtimeNs } = await stat(path, { bigint: true });
      const state = `${ino} ${size} ${mtimeNs}`;
      if (state === seen) return hosts;
      hosts = parse(await readFile(path, 'utf8'));
      seen = state;
    } catch (error) {
      // Without a file that it may read, every program of the machine goes on to DNS.
      if (!['ENOENT', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
      hosts = new Map();
      seen = '';
    }
    return hosts;
  };
}

function parse(text: string): Hosts {
  const hosts = new Map<string, LookupAddress[]>();
  for (const line of text.split(/\r?\n/)) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    const family = isIP(address);
    if (family === 0) continue;
    for (const name of new Set(names.map((name) => name.toLowerCase()))) {
      hosts.set(name, [...(hosts.get(name) ?? []), { address, family }]);
    }
  }
  return hosts;
}
