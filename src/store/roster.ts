import { createHash } from 'node:crypto';
import type { Roster } from './port.ts';

/** Processes that know the same publish the same id, so that a roster is written and read once for all of them. */
export function rosterId(roster: Roster): string {
  return createHash('sha256').update(JSON.stringify(roster)).digest('hex').slice(0, 32);
}

/** Configurations of which the generation is remembered; a process of an older one counts as older than all. */
export const GENERATIONS_KEPT = 1_000;
