import type { AudiencePause } from '../store/port.ts';

/** That a person paused it. */
export function pausedSince({ at, by }: Pick<AudiencePause, 'at' | 'by'>): string {
  return `paused since ${new Date(at).toISOString()} by ${by}`;
}
