import type { Clock } from '../clock.ts';

/** Processes that serve one destination at most; beyond so many, each process serves only some of the destinations. */
export const SERVERS_LIMIT = 4;

/** This process's part in serving a destination. */
export interface Share {
  /** Processes that serve it. */
  readonly of: number;
  /** Whether it is the one that probes the destination's dead endpoints. */
  readonly leads: boolean;
}

export const WHOLE: Share = { of: 1, leads: true };

/** A number that this process gives itself (48 bits): no other has it, and it is the same on all databases. */
export function processNumber(clock: Clock): number {
  return Number.parseInt(clock.token(6), 16);
}

/**
 * Divides destinations among processes by rendezvous hashing: all come to the same result without a word, and when a
 * process comes or goes only its own part moves. Since processes are known by the numbers they gave themselves, the same
 * ones serve a destination on every database; where one is not seen on one of them, another takes its place there.
 *
 * @param processes - those that deliver now, each once
 * @returns null when this process leaves the destination to others
 */
export function shareOf(destination: string, process: number, processes: Iterable<number>): Share | null {
  const key = hash(destination);
  const own = weight(key, process);
  let rank = 0;
  let others = 0;
  for (const other of processes) {
    if (other === process) continue;
    others += 1;
    const theirs = weight(key, other);
    if (theirs > own || (theirs === own && other > process)) rank += 1;
  }
  return rank < SERVERS_LIMIT ? { of: Math.min(SERVERS_LIMIT, others + 1), leads: rank === 0 } : null;
}

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  return value;
}

/** Every bit of the key and of the number's lower 32 counts (the finalizer of MurmurHash3). */
function weight(key: number, process: number): number {
  let value = key ^ Math.imul(process, 0x9e3779b1);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}
