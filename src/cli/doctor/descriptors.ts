import { readFileSync } from 'node:fs';
import { type Finding, warning } from './finding.ts';

/** File descriptors of an idle process, its sessions and some clients, and of an endpoint to begin with. */
const OWN = 200;
const PER_ENDPOINT = 16;

/** Warn if too few open files are allowed for this many endpoints. Only Linux says how many are. */
export function* examineDescriptors(endpoints: number, limit = openFilesLimit()): Generator<Finding> {
  const needed = OWN + PER_ENDPOINT * endpoints;
  if (limit !== null && limit < needed)
    yield warning(
      'open files',
      `only ${limit} are allowed here, and ${endpoints} endpoints need ${needed}: with fewer, less is delivered at once. Raise the limit (ulimit -n, LimitNOFILE of systemd)`,
    );
}

function openFilesLimit(): number | null {
  try {
    const [, limit] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return limit === undefined ? null : Number(limit);
  } catch {
    return null;
  }
}
