/** Limit of processes that serve one destination. With more processes, each serves only some of the destinations. */
export const SERVERS_LIMIT = 4;

export interface Share {
  /** Number of processes that serve it. */
  readonly of: number;
  /** True if it is the one that probes the destination's dead endpoints. */
  readonly leads: boolean;
}

export const WHOLE: Share = { of: 1, leads: true };

/**
 * Divides destinations among processes by rendezvous hashing: all compute the same result without communicating, and
 * when a process joins or leaves only its own part moves.
 *
 * @param owner - this process
 * @param owners - the delivering processes, each once
 * @returns null if others serve the destination
 */
export function shareOf(destination: string, owner: number, owners: Iterable<number>): Share | null {
  const key = hash(destination);
  const own = weight(key, owner);
  let rank = 0;
  let others = 0;
  for (const other of owners) {
    if (other === owner) continue;
    others += 1;
    const theirs = weight(key, other);
    if (theirs > own || (theirs === own && other > owner)) rank += 1;
  }
  return rank < SERVERS_LIMIT ? { of: Math.min(SERVERS_LIMIT, others + 1), leads: rank === 0 } : null;
}

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  return value;
}

/** Uses every bit of the key and of the id's lower 32 (the finalizer of MurmurHash3). */
function weight(key: number, owner: number): number {
  let value = key ^ Math.imul(owner, 0x9e3779b1);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}
