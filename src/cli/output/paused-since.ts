import type { Config } from '../../config/config.ts';
import type { AudiencePause } from '../../store/port.ts';

type Pause = Pick<AudiencePause, 'at' | 'by'>;

export function pausedSince({ at, by }: Pause): string {
  return `paused since ${new Date(at).toISOString()} by ${by}`;
}

/** Says if the configuration or a person has paused an audience; null if neither. Only the configuration undoes its own. */
export function howPaused(key: string, config: Config, pause: Pause | null): string | null {
  if (isPausedIn(config, key)) return 'paused in the configuration';
  return pause && pausedSince(pause);
}

export const isPausedIn = ({ audiences, traits }: Config, key: string): boolean =>
  [...audiences, ...traits].some((each) => each.key === key && each.paused);
