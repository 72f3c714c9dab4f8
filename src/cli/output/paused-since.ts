import type { Config } from '../../config/config.ts';
import type { AudiencePause } from '../../store/port.ts';

type Pause = Pick<AudiencePause, 'at' | 'by'>;

/** That a person paused it. */
export function pausedSince({ at, by }: Pause): string {
  return `paused since ${new Date(at).toISOString()} by ${by}`;
}

/** Who keeps an audience from being synced: the configuration, which only it can undo, or a person; null for nobody. */
export function howPaused(key: string, config: Config, pause: Pause | null): string | null {
  if (isPausedIn(config, key)) return 'paused in the configuration';
  return pause && pausedSince(pause);
}

export const isPausedIn = ({ audiences, traits }: Config, key: string): boolean =>
  [...audiences, ...traits].some((each) => each.key === key && each.paused);
