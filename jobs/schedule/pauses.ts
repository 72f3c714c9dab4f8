import type { AudiencePause, Records } from '../../src/store/port.ts';
import type { JobLog } from '../run/run-context.ts';

/** Audiences that a person has paused. */
export interface Pauses {
  of(key: string): Promise<AudiencePause | null>;
  /**
   * Whether a sync has to pass over an audience; logs it if so.
   *
   * @param isTick - nobody asked for it: it is told once
   */
  passesOver(key: string, isTick: boolean): Promise<boolean>;
}

export function createPauses(store: Pick<Records, 'pausedAudiences'>, log: JobLog): Pauses {
  const of = async (key: string) => (await store.pausedAudiences()).find((pause) => pause.key === key) ?? null;
  /** By key, when the pause began that a tick has told of. */
  const told = new Map<string, number>();

  return {
    of,
    async passesOver(key, isTick) {
      const pause = await of(key);
      if (pause === null) return false;
      const { at, by } = pause;
      const since = new Date(at).toISOString();
      const level = isTick && told.get(key) === at ? 'debug' : 'info';
      log[level]({ event: 'sync_paused', key, by, since }, `${key} is not synced: ${by} paused it at ${since}`);
      if (isTick) told.set(key, at);
      return true;
    },
  };
}
