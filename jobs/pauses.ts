import type { AudiencePause, Store } from '../src/store/port.ts';
import type { Log } from './context.ts';

/** Audiences that a person has paused. */
export interface Pauses {
  of(key: string): Promise<AudiencePause | null>;
  /** Whether a sync has to pass over an audience; logs it if so. */
  passesOver(key: string): Promise<boolean>;
}

export function createPauses(store: Pick<Store, 'pausedAudiences'>, log: Log): Pauses {
  const of = async (key: string) => (await store.pausedAudiences()).find((pause) => pause.key === key) ?? null;

  return {
    of,
    async passesOver(key) {
      const pause = await of(key);
      if (pause === null) return false;
      const { at, by } = pause;
      const since = new Date(at).toISOString();
      log.info({ event: 'sync_paused', key, by, since }, `${key} is not synced: ${by} paused it at ${since}`);
      return true;
    },
  };
}
