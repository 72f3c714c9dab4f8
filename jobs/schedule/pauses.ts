import type { AudiencePause, Records } from '../../src/store/port.ts';
import type { JobLog } from '../run/run-context.ts';

export interface Pauses {
  of(key: string): Promise<AudiencePause | null>;
  /**
   * True if a sync must skip an audience, which is logged.
   *
   * @param isTick - a scheduled sync, whose skips are logged at `info` only once per pause
   */
  passesOver(key: string, isTick: boolean): Promise<boolean>;
}

export function createPauses(store: Pick<Records, 'pausedAudiences'>, log: JobLog): Pauses {
  const of = async (key: string) => (await store.pausedAudiences()).find((pause) => pause.key === key) ?? null;
  /** Start of the pause that a tick has logged, by key. */
  const logged = new Map<string, number>();

  return {
    of,
    async passesOver(key, isTick) {
      const pause = await of(key);
      if (pause === null) return false;
      const { at, by } = pause;
      const since = new Date(at).toISOString();
      const level = isTick && logged.get(key) === at ? 'debug' : 'info';
      log[level]({ event: 'sync_paused', key, by, since }, `${key} is not synced: ${by} paused it at ${since}`);
      if (isTick) logged.set(key, at);
      return true;
    },
  };
}
